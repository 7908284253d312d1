package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
)

// filesPeriod is how often the sizes of the jobs' output files are looked at, and the files that all jobs need.
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
		return "was cut by " + size.Text(o.cut)
	}
	now, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", o.file.Fd()))
	if now == "" || strings.HasSuffix(now, " (deleted)") {
		return "was removed or replaced"
	}
	return "was moved to " + now
}

// watchFiles stops jobs that would fill the disk, and keeps in their places what leads to the MPS daemon and the clients'
// state file.
func (x *Executor) watchFiles() {
	ticker := time.NewTicker(filesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = x.mendServer() // a job that starts looks again
			_ = x.mendState()
			for _, r := range x.running() {
				x.checkOutput(r.job, ": it was stopped")
			}
		case <-x.loop.Done():
			return
		}
	}
}

// checkOutput ends a job that has written too much, also to a file that it has removed, which takes the place on the disk all the same.
func (x *Executor) checkOutput(job int, then string) {
	x.mu.Lock()
	ranks := x.procs[job]
	x.mu.Unlock()
	written := int64(0)
	for _, p := range ranks {
		written += p.written()
	}
	if x.config.OutputLimit > 0 && written > x.config.OutputLimit {
		much, limit := size.Apart(written, x.config.OutputLimit)
		x.post(runner.Overfull{Job: job, Why: fmt.Sprintf("it wrote %s to standard output and standard error, and --output-limit is %s%s", much, limit, then)})
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
	x.checkOutput(job, "")
	x.tellOutput(job, p)
}

// leaveOutput keeps in mind how a job has left its output files, once nothing of it is left that writes there.
func (x *Executor) leaveOutput(p *process) {
	var left []written
	p.mu.Lock()
	for _, o := range p.outputs {
		if info, err := o.file.Stat(); err == nil && !o.told {
			left = append(left, written{o.file.Name(), info.Sys().(*syscall.Stat_t).Ino, info.Size()})
		}
	}
	p.mu.Unlock()
	p.closeOutputs()
	x.mu.Lock()
	x.written = append(x.written, left...)
	x.mu.Unlock()
}

// written is an output file as its job left it.
type written struct {
	path string
	file uint64 // its inode
	size int64
}

// tellWritten says at the end of the run which output files are not as their jobs left them.
func (x *Executor) tellWritten() {
	x.mu.Lock()
	all := x.written
	x.mu.Unlock()
	const shown = 8
	var names []string
	for _, w := range all {
		if info, err := os.Lstat(w.path); err != nil || info.Sys().(*syscall.Stat_t).Ino != w.file || info.Size() != w.size {
			names = append(names, filepath.Base(w.path))
		}
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - shown; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	e := results.Event{Kind: results.EventFiles, Detail: fmt.Sprintf("output files were removed, replaced or changed after their jobs had ended: %s%s; jobs must leave the run's files alone",
		strings.Join(names[:min(shown, len(names))], ", "), more)}
	x.config.Warn("%s", e.Detail)
	x.note(e)
}

// tellOutput says once of each output file of a job that it was spoiled.
func (x *Executor) tellOutput(job int, p *process) {
	var found []string
	p.mu.Lock()
	for _, o := range p.outputs {
		if what := o.spoiled(); what != "" && !o.told {
			o.told = true
			found = append(found, fmt.Sprintf("%s of job %d, in %s, %s", o.stream, x.number(job), o.name, what))
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

// runs is a process of a job that has not ended.
type runs struct {
	job int
	*process
}

// running are the processes of jobs that have not ended.
func (x *Executor) running() (out []runs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for job, ranks := range x.procs {
		for _, p := range ranks {
			if !p.over() {
				out = append(out, runs{job, p})
			}
		}
	}
	return out
}
