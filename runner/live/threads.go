package live

import (
	"runtime"
	"sync"
)

// spareThreads is how many threads a run makes besides one for each processor. Jobs that start
// or end together cause system calls that take a thread each.
const spareThreads = 16

// makeThreads makes the threads that a run needs before its jobs start. Go's runtime makes a
// thread whenever a system call takes long, and ends the program if it cannot. A job may use
// up the user's processes and threads. The process keeps the threads.
func makeThreads() {
	n := runtime.GOMAXPROCS(0) + spareThreads
	var all, ready sync.WaitGroup
	ready.Add(n)
	for range n {
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait() // on a thread of its own, like each of the goroutines
		})
	}
	all.Wait()
}
