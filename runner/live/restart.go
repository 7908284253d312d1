package live

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/caserun/caserun/runner"
)

// Restart carries out runner.Restart. Nothing of the try before is left but its files.
func (x *Executor) Restart(job int, t runner.Try) {
	x.mu.Lock()
	if x.tries == nil {
		x.tries = map[int]runner.Try{}
	}
	x.tries[job] = t
	x.mu.Unlock()
	x.spawn.do(func() { x.keepOutput(job, t.Restart) })
	x.Start(job, nil)
}

// try is how a job starts; the zero Try: for the first time.
func (x *Executor) try(job int) runner.Try {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tries[job]
}

// fileName begins the names of a job's files, of which the last try has the plain ones.
func (x *Executor) fileName(job int) string {
	name := fmt.Sprintf("job-%04d", x.number(job))
	if n := x.job(job).spec.Portion; n > 0 {
		name += fmt.Sprintf("-portion-%d", n-1)
	}
	return name
}

// number is a job's number in the run, for texts, and gpu a device's.
func (x *Executor) number(job int) int { return runner.Numbered(x.config.JobNumber, job) }
func (x *Executor) gpu(device int) int { return runner.Numbered(x.config.DeviceNumber, device) }

func trySuffix(n int) string { return fmt.Sprintf("-try-%d", n) }

// keepOutput gives the output files of a job's try, the n-th, names of their own.
func (x *Executor) keepOutput(job, n int) {
	base := x.fileName(job)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ext := range []string{".out", ".err"} {
		name, kept := base+ext, base+trySuffix(n)+ext
		for i := range x.written {
			w := &x.written[i]
			if filepath.Base(w.path) != name {
				continue
			}
			to := filepath.Join(filepath.Dir(w.path), kept)
			if err := os.Rename(w.path, to); err != nil {
				x.config.Warn("output of job %d before its restart is not kept: %v", x.number(job), err)
			}
			w.path = to
		}
	}
}

var _ runner.Restarter = (*Executor)(nil)
