package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/results"
)

// crashEnv makes the test binary a writer that never stops by itself.
const crashEnv = "CASERUN_TEST_STORE_TO_CRASH"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		if err := writeForever(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func writeForever(path string) error {
	ctx := context.Background()
	s, err := Open(path)
	if err != nil {
		return err
	}
	run, found := fullRun()
	id, err := s.BeginRun(ctx, run, found)
	if err != nil {
		return err
	}
	w := s.Writer(id)
	for i := 0; ; i++ {
		w.Job(results.Job{Index: i, Name: "job"})
		for k := range 200 {
			w.Kernel(results.Kernel{Job: i, Name: "k", StartS: float64(k), EndS: float64(k + 1)})
		}
		if i%50 == 0 {
			if err := w.Flush(ctx); err != nil {
				return err
			}
			fmt.Println(i)
		}
	}
}

func TestKilledWriterLeavesACleanStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashEnv+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	flushed := -1
	lines := bufio.NewScanner(out)
	for range 4 {
		if !lines.Scan() {
			break
		}
		if _, err := fmt.Sscan(lines.Text(), &flushed); err != nil {
			t.Error(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = child.Wait() // it was killed
	if flushed < 150 {
		t.Fatalf("the child flushed only up to job %d", flushed)
	}
	for name, open := range map[string]func(string) (*Store, error){"read-only": OpenReadOnly, "writing": Open} {
		s, err := open(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkIntegrity(t, s)
		found, err := s.Jobs(context.Background(), 1)
		if err != nil || len(found) <= flushed {
			t.Errorf("%s: %d jobs (%v), but job %d had been flushed", name, len(found), err, flushed)
		}
		if r, err := s.Run(context.Background(), 1); err != nil || r.Status != results.Running {
			t.Errorf("%s: the killed run has status %q (%v), want running", name, r.Status, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
