package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/scratch"
)

// Jobs run as the user of the run, so they can remove, replace and lock each of its files. What a job does
// to them must not change what is measured: the run makes them again, and records an event of kind files.

// stray keeps what a process says that does not show its job's token: it is the job's whose session it has,
// which is known at the job's end at the latest.
func (x *Executor) stray(session int, event func(job int) runner.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.strays) == mostStrays {
		return // any process of this machine can send reports
	}
	if x.strays == nil {
		x.strays = map[int]func(job int) runner.Event{}
	}
	x.strays[session] = event
}

// mostStrays bounds what is kept for jobs that are not known yet.
const mostStrays = 1024

// settleStrays posts what processes of a job have said that did not show its token.
func (x *Executor) settleStrays(job int, p *process) {
	x.mu.Lock()
	event := x.strays[p.pid]
	delete(x.strays, p.pid)
	x.mu.Unlock()
	if event != nil {
		x.post(event(job))
	}
}

func (x *Executor) socketMended(err error) {
	what := "the scheduler's socket was removed, replaced or locked, and made again"
	if err != nil {
		what = fmt.Sprintf("the scheduler's socket was removed, replaced or locked: %v", err)
	}
	x.tampered(what)
}

// mostTampered is how many events of kind files a run records, because a job can go on without end.
const mostTampered = 64

// tampered records what was done to a file of the run, and which jobs have run since the files were looked at: one of them did it.
func (x *Executor) tampered(what string) {
	x.mu.Lock()
	x.spoiled++
	n := x.spoiled
	suspects := slices.Clone(x.suspects)
	x.mu.Unlock()
	e := results.Event{Kind: results.EventFiles, Detail: what}
	switch len(suspects) {
	case 0:
	case 1:
		e.Job = &suspects[0]
	default:
		e.Detail += ", by one of the jobs " + list(suspects)
	}
	e.Detail += "; jobs must leave the run's files alone"
	switch {
	case n == 1:
		x.config.Warn("%s", e.Detail)
	case n == mostTampered:
		e.Detail += "; further ones are not recorded"
	case n > mostTampered:
		return
	}
	x.note(e)
}

// list is jobs as text.
func list(jobs []int) string {
	const shown = 32
	slices.Sort(jobs)
	var out []string
	for _, job := range jobs[:min(shown, len(jobs))] {
		out = append(out, strconv.Itoa(job))
	}
	text := strings.Join(out, ", ")
	if more := len(jobs) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// make makes something in the run's directory. What a job has left there in its place is removed, and the directory
// is made again if it is gone. If even that does not help, output goes to another directory. It runs on the
// spawner's thread.
func (x *Executor) make(name string, create func(path string) error) error {
	err := create(filepath.Join(x.dir, name))
	for _, mend := range []func(name string) error{x.clear, x.remakeDir, x.otherDir} {
		if err == nil || notTheJobs(lack(err)) {
			break
		}
		before := err
		if failed := mend(name); failed != nil {
			continue
		}
		if err = create(filepath.Join(x.dir, name)); err == nil {
			x.tampered(fmt.Sprintf("%v: it was made again, in %s", before, x.dir))
		}
	}
	if err != nil {
		return unwritable(err)
	}
	return nil
}

// clear removes what has the name of a file to be made.
func (x *Executor) clear(name string) error { return os.RemoveAll(filepath.Join(x.dir, name)) }

// remakeDir makes the run's directory again.
func (x *Executor) remakeDir(string) error {
	if info, err := os.Lstat(x.dir); err == nil && !info.IsDir() {
		if err := os.Remove(x.dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(x.dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(x.dir, 0o755)
}

// otherDir takes another directory for output from now on.
func (x *Executor) otherDir(string) error {
	dir, err := os.MkdirTemp("", "caserun-output-")
	if err == nil {
		x.dir = dir
		x.config.Warn("the output files of further jobs are in %s", dir)
	}
	return err
}

// makeFile makes an output file. It never opens what a job has put in its place, such as a link or a FIFO.
func (x *Executor) makeFile(name string) (f *os.File, err error) {
	err = x.make(name, func(path string) (err error) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o666)
		return err
	})
	return f, err
}

// mend puts the files in their places that a job needs to reach the run.
func (x *Executor) mend() error {
	x.server.Mend()
	for _, r := range x.running() {
		x.tellOutput(r.job, r.process)
	}
	if err := x.mendServer(); err != nil {
		return err
	}
	if x.config.Preload != "" {
		if _, err := os.Stat(x.config.Preload); err != nil {
			return &failure{err, "without the library jobs are not scheduled"}
		}
	}
	if x.links != "" && !linked(x.config.Preload, x.links) {
		err := errors.Join(os.RemoveAll(x.links), link(x.config.Preload, x.links))
		if err != nil {
			x.preload, x.links = x.config.Preload, ""
		}
		x.tampered("the links to the preloaded library were removed or replaced")
	}
	return x.mendState()
}

// mendState puts back the state file of clients that decide, with what is in it.
func (x *Executor) mendState() error {
	x.mending.Lock()
	defer x.mending.Unlock()
	if x.state == "" || same(x.state, x.spare) {
		return nil
	}
	dir := filepath.Dir(x.state)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		_ = os.Remove(dir)
	}
	err := errors.Join(os.Chmod(x.spare, 0o600), os.MkdirAll(dir, 0o700), os.RemoveAll(x.state))
	if err == nil {
		err = os.Link(x.spare, x.state)
	}
	if err != nil {
		return unwritable(fmt.Errorf("the clients' state file was removed: %w", err))
	}
	x.tampered("the clients' state file was removed or replaced, and put back")
	return nil
}

// mendServer puts back what leads to the MPS daemon. A program that does not find the daemon runs without it, so after an error no
// further job may start.
func (x *Executor) mendServer() error {
	if x.config.MendServer == nil {
		return nil
	}
	mended, err := x.config.MendServer()
	x.mu.Lock()
	told := x.cutOff
	x.cutOff = err != nil
	x.mu.Unlock()
	switch {
	case err != nil && !told:
		x.tampered(fmt.Sprintf("what leads to the MPS daemon was removed, and cannot be put back: %v", err))
	case err == nil && mended:
		x.tampered("what leads to the MPS daemon was removed, replaced or locked, and put back")
	}
	if err != nil {
		return &failure{fmt.Errorf("what leads to the MPS daemon was removed: %w", err), "jobs must leave CUDA_MPS_PIPE_DIRECTORY alone"}
	}
	return nil
}

// looked notes that the files are as they should be before a job starts.
func (x *Executor) looked(job int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.suspects = append(x.suspects[:0], job)
	for i, ranks := range x.procs {
		if slices.ContainsFunc(ranks, func(p *process) bool { return !p.over() }) {
			x.suspects = append(x.suspects, i)
		}
	}
}

// same reports whether two names are of one file, which may be read and written.
func same(a, b string) bool {
	one, err := os.Lstat(a)
	other, failed := os.Lstat(b)
	return err == nil && failed == nil && os.SameFile(one, other) && unix.Access(a, unix.R_OK|unix.W_OK) == nil
}

// remove removes temporary directories at the end of a run, whose measurements do not depend on them.
func (x *Executor) remove(dirs ...*scratch.Dir) {
	for _, d := range dirs {
		if err := d.Remove(); err != nil {
			x.config.Warn("a temporary directory of the run is left behind: %v", err)
		}
	}
}
