package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// What has run out is not the job's doing, and the message says what to do.
func TestLacks(t *testing.T) {
	for _, c := range []struct {
		errno unix.Errno
		says  string // "": it is the job's
	}{
		{unix.EMFILE, "ulimit -n"}, {unix.ENFILE, "fs.file-max"}, {unix.EAGAIN, "ulimit -u"}, {unix.ENOMEM, "memory"},
		{unix.ENOSPC, "inodes"}, {unix.EDQUOT, "quota"}, {unix.EIO, "dmesg"},
		{unix.ENOENT, ""}, {unix.EACCES, ""}, {unix.ENOEXEC, ""}, {unix.E2BIG, ""}, {unix.ETXTBSY, ""},
	} {
		err := fmt.Errorf("start: %w", &fs.PathError{Op: "fork/exec", Path: "/bin/x", Err: c.errno})
		got := lack(err)
		if notTheJobs(got) != (c.says != "") || !errors.Is(got, c.errno) || !strings.Contains(got.Error(), c.says) || !strings.Contains(got.Error(), "/bin/x") {
			t.Errorf("%v: %v, want it to say %q", c.errno, got, c.says)
		}
		if got := unwritable(err); !notTheJobs(got) || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%v of an output file: %v", c.errno, got)
		}
	}
}

// A program that vanishes, or cannot be run, is the job's: the run goes on.
func TestProgramThatCannotRun(t *testing.T) {
	r := newRig(t, "case-alg3").job("exit:0").job("exit:0").job("exit:0")
	r.jobs[0].Program = filepath.Join(r.dir, "gone")
	r.jobs[1].Program = filepath.Join(r.dir, "text")
	if err := os.WriteFile(r.jobs[1].Program, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	jobs, _ := r.mustRun()
	for i, want := range []results.Outcome{results.Crash, results.Crash, results.OK} {
		if got := *jobs[i].Outcome; got != want {
			t.Errorf("job %d: %s (%s), want %s", i, got, jobs[i].Detail, want)
		}
	}
}
