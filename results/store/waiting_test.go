package store

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The process that writes to a store is known by its lock, with and without a write-ahead log.
func TestTheWriterIsKnown(t *testing.T) {
	for _, mode := range []string{"WAL", "DELETE"} {
		path := filepath.Join(t.TempDir(), "runs.db")
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(setJournal(t.Context(), path, s.write, mode), s.transaction(t.Context(), "write", func(tx *sql.Tx) error {
			if got, want := writerOf(path), fmt.Sprintf("process %d (", os.Getpid()); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s writes, want %q", mode, got, want)
			}
			return nil
		}))
		if got := writerOf(path); got != anotherProgram {
			t.Errorf("%s: nobody writes, and it is %q", mode, got)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStoppedProcessIsCalledSo(t *testing.T) {
	c := exec.Command("cat")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it is not stopped: %v (%v)", status, err)
	}
	if got, want := processNamed(fmt.Sprint(c.Process.Pid)), fmt.Sprintf("process %d (cat, which is stopped)", c.Process.Pid); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := errors.Join(c.Process.Kill(), in.Close()); err != nil {
		t.Error(err)
	}
	_ = c.Wait() // it was killed
	if got := processNamed(fmt.Sprint(c.Process.Pid)); got != anotherProgram {
		t.Errorf("a process that is gone is %q", got)
	}
}
