package live

import (
	"runtime"
	"sync"
)

// spareThreads is how many threads a run makes sure that it has, besides one for each
// processor: for the system calls that jobs make when they start and end together.
const spareThreads = 16

// makeThreads sees to the threads that a run needs before its jobs start. A job may
// leave the user none to add, and Go's runtime, which makes one whenever a system call
// takes long, ends the program then. The process keeps them.
func makeThreads() {
	n := runtime.GOMAXPROCS(0) + spareThreads
	var all, ready sync.WaitGroup
	ready.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait() // on a thread of its own, as each of the others
		})
	}
	all.Wait()
}
