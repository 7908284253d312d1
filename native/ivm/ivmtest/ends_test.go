package ivmtest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
)

// A PE that ends wrongly ends the application. ivmd says which PE it was, and how it ended.
func TestAnEndThatIsWrongEndsTheApplication(t *testing.T) {
	ivmd, program := built(t, "ends")
	for mode, want := range map[string]string{
		"exit":    "ended with status 0 without ivm_exit, so its application ends",
		"status":  "ended with status 3, so its application ends",
		"abort":   "was killed by signal 6 (Aborted), so its application ends",
		"fault":   "was killed by signal 11 (Segmentation fault), so its application ends",
		"garbage": "sent what is not a request, so its application ends",
	} {
		t.Run(mode, func(t *testing.T) {
			e := run(t, ivmd, "-v", program, mode)
			ids := pids(t, e.stderr)
			if len(ids) < 3 {
				t.Fatalf("no PE 2:\n%s", e.stderr)
			}
			if line := fmt.Sprintf("ivmd: PE 2 (pid %d) %s\n", ids[2], want); e.status != 124 || !strings.Contains(e.stderr, line) {
				t.Errorf("status %d, want 124 and %s in\n%s", e.status, line, e.stderr)
			}
			for _, pid := range ids {
				wantGone(t, pid)
			}
		})
	}
}

// The root's status is ivmd's. Other statuses say that there was no application.
func TestExitStatus(t *testing.T) {
	ivmd, program := built(t, "ends")
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		arguments    string
		status       int
		stdout, says string
	}{
		{program + " alone", 5, "", ""},
		{program + " help", 7, "", ""}, // the root has not entered
		{"--help", 0, "Usage: ivmd", ""},
		{"", 125, "", "ivmd: no PROGRAM: try ivmd --help\n"},
		{"--wrong", 125, "", "try ivmd --help\n"},
		{"/no/such/program", 127, "", "ivmd: cannot start /no/such/program: No such file or directory\n"},
		{text, 126, "", "ivmd: cannot start " + text + ": Permission denied\n"},
	} {
		e := run(t, ivmd, strings.Fields(test.arguments)...)
		if e.status != test.status || !strings.Contains(e.stdout, test.stdout) || !strings.HasSuffix(e.stderr, test.says) || test.says == "" && e.stderr != "" {
			t.Errorf("ivmd %s: status %d, want %d and %q\n%s%s", test.arguments, e.status, test.status, test.says, e.stdout, e.stderr)
		}
	}
	c := exec.Command(program, "none")
	if said, _ := c.CombinedOutput(); !strings.Contains(string(said), "ivmd did not start it") {
		t.Errorf("without ivmd: %s", said)
	}
}

// What a PE has started itself ends with it.
func TestAHelperEndsWithItsPE(t *testing.T) {
	ivmd, program := built(t, "ends")
	var pid int
	if e := run(t, ivmd, program, "helper").must(t); !scans(e.stdout, "helper %d", &pid) {
		t.Fatal(e.stdout)
	}
	wantGone(t, pid)
}

func scans(text, format string, values ...any) bool {
	n, err := fmt.Sscanf(text, format, values...)
	return err == nil && n == len(values)
}

// output is a buffer that can be read while a process writes.
type output struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.String()
}

// Whoever is killed, a PE or ivmd, and whenever: ivmd says which PE it was, and no process is left.
func TestNothingIsLeftAfterAKill(t *testing.T) {
	ivmd, program := built(t, "ends")
	for seed := range chance.Seeds(t, 12, 500) {
		random := rand.New(rand.NewPCG(seed, 1))
		victim := random.IntN(5) - 1 // -1 is ivmd
		c := application(t, ivmd, "-v", program, "none")
		said := new(output)
		c.Stderr = said
		c.Stdout = io.Discard
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for len(pids(t, said.String())) <= max(victim, 0) {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Duration(random.IntN(20000)) * time.Microsecond)
		killed := c.Process.Pid
		if victim >= 0 {
			killed = pids(t, said.String())[victim]
		}
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // its error is the status, which is looked at
		if victim >= 0 {
			line := fmt.Sprintf("ivmd: PE %d (pid %d) was killed by signal 9 (Killed)", victim, killed)
			if !strings.Contains(said.String(), line) || c.ProcessState.ExitCode() != 124 {
				t.Errorf("seed %d: %v, want 124 and %s in\n%s", seed, c.ProcessState, line, said)
			}
		}
		for _, pid := range pids(t, said.String()) {
			wantGone(t, pid)
		}
	}
}

// A signal to ivmd ends the application.
func TestASignalEndsTheApplication(t *testing.T) {
	ivmd, program := built(t, "ends")
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		c := application(t, ivmd, "-v", program, "none")
		said := new(output)
		c.Stderr = said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for len(pids(t, said.String())) < 3 {
			time.Sleep(100 * time.Microsecond)
		}
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // its error is the status, which is looked at
		if c.ProcessState.ExitCode() != status || !strings.Contains(said.String(), "the application ends\n") {
			t.Errorf("%v: %v\n%s", signal, c.ProcessState, said)
		}
		for _, pid := range pids(t, said.String()) {
			wantGone(t, pid)
		}
	}
}

// A second signal ends ivmd at once, also if its node is stopped and cannot end.
func TestASecondSignalDoesNotWait(t *testing.T) {
	ivmd, program := built(t, "ends")
	c := application(t, ivmd, "-v", program, "none")
	said := new(output)
	c.Stderr = said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for len(pids(t, said.String())) < 4 {
		time.Sleep(100 * time.Microsecond)
	}
	node := children(t, c.Process.Pid, "ivmd")[0]
	if err := syscall.Kill(node, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i, line := range []string{"ivmd: signal 2 (Interrupt): the application ends\n", "ivmd: signal 2 (Interrupt) while the application ends"} {
		if err := c.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(i, err)
		}
		for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said.String(), line); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %q in\n%s", line, said)
			}
		}
	}
	_ = c.Wait() // its error is the status, which is looked at
	if c.ProcessState.ExitCode() != 130 {
		t.Error(c.ProcessState)
	}
	for _, pid := range append(pids(t, said.String()), node) {
		wantGone(t, pid)
	}
}
