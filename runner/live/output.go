package live

import (
	"fmt"
	"os"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
)

// outputPeriod is how often the sizes of the jobs' output files are looked at.
const outputPeriod = 100 * time.Millisecond

// watchOutput stops jobs that would fill the disk.
func (x *Executor) watchOutput() {
	if x.config.OutputLimit <= 0 {
		return
	}
	x.clean.Go(func() {
		ticker := time.NewTicker(outputPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				x.checkOutput()
			case <-x.loop.Done():
				return
			}
		}
	})
}

// checkOutput looks at the output files of the jobs that run.
func (x *Executor) checkOutput() {
	for job, p := range x.running() {
		var size int64
		for _, path := range []string{p.stdout, p.stderr} {
			if info, err := os.Lstat(path); err == nil { // the job may have removed it
				size += info.Size()
			}
		}
		if size > x.config.OutputLimit {
			x.post(runner.Overfull{Job: job, Why: fmt.Sprintf("it wrote %d bytes to standard output and standard error, and --output-limit is %s: it was stopped",
				size, mixes.FormatBytes(x.config.OutputLimit))})
		}
	}
}

// running are the processes of jobs that have not ended, by job.
func (x *Executor) running() map[int]*process {
	x.mu.Lock()
	defer x.mu.Unlock()
	running := map[int]*process{}
	for job, p := range x.procs {
		if p != nil && !p.over() {
			running[job] = p
		}
	}
	return running
}
