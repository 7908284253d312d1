package live

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
)

// filesPeriod is how often the sizes of the jobs' output files are looked at, and what leads to the MPS daemon.
const filesPeriod = 100 * time.Millisecond

// output is a file that a job writes to. The job can remove, move and replace what has its name, so it is looked at by the descriptor
// that the job was given.
type output struct {
	stream string // standard output or standard error
	name   string // in the directory for output files
	file   *os.File

	size    int64 // when it was last looked at
	written int64 // by what it grew between two looks
	cut     int64 // by what it shrank
	told    bool  // what was done to it
}

// look notes by what the file has changed.
func (o *output) look() {
	info, err := o.file.Stat()
	if err != nil { // closed: the job has ended
		return
	}
	o.written += max(info.Size()-o.size, 0)
	o.cut += max(o.size-info.Size(), 0)
	o.size = info.Size()
}

// spoiled says what was done to the file beside writing; "": nothing.
func (o *output) spoiled() string {
	path := o.file.Name()
	mine, err := o.file.Stat()
	named, failed := os.Lstat(path)
	switch {
	case err != nil:
		return ""
	case failed == nil && os.SameFile(mine, named) && o.cut == 0:
		return ""
	case failed == nil && os.SameFile(mine, named):
		return fmt.Sprintf("was cut by %d bytes", o.cut)
	}
	now, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", o.file.Fd()))
	if now == "" || strings.HasSuffix(now, " (deleted)") {
		return "was removed or replaced"
	}
	return "was moved to " + now
}

// watchFiles stops jobs that would fill the disk, and keeps what leads to the MPS daemon in its place.
func (x *Executor) watchFiles() {
	ticker := time.NewTicker(filesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = x.mendServer() // a job that starts looks again
			for job, p := range x.running() {
				x.checkOutput(job, p, ": it was stopped")
			}
		case <-x.loop.Done():
			return
		}
	}
}

// checkOutput ends a job that has written too much, also to a file that it has removed, which takes the place on the disk all the same.
func (x *Executor) checkOutput(job int, p *process, then string) {
	if written := p.written(); x.config.OutputLimit > 0 && written > x.config.OutputLimit {
		x.post(runner.Overfull{Job: job, Why: fmt.Sprintf("it wrote %d bytes to standard output and standard error, and --output-limit is %s%s",
			written, mixes.FormatBytes(x.config.OutputLimit), then)})
	}
}

// written is how many bytes the job has written to its output files.
func (p *process) written() (bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.outputs {
		o.look()
		bytes += o.written
	}
	return bytes
}

// settleOutput looks at the output files of a job whose leader and group have ended.
func (x *Executor) settleOutput(job int, p *process) {
	x.checkOutput(job, p, "")
	x.tellOutput(job, p)
	p.closeOutputs()
}

// tellOutput says once of each output file of a job that it was spoiled.
func (x *Executor) tellOutput(job int, p *process) {
	var found []string
	p.mu.Lock()
	for _, o := range p.outputs {
		if what := o.spoiled(); what != "" && !o.told {
			o.told = true
			found = append(found, fmt.Sprintf("%s of job %d, in %s, %s", o.stream, job, o.name, what))
		}
	}
	p.mu.Unlock()
	for _, what := range found {
		x.tampered(what)
	}
}

func (p *process) closeOutputs() {
	for _, o := range p.outputs {
		if o != nil {
			_ = o.file.Close() // nothing was written through it
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
