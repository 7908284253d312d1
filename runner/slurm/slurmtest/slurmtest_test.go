//go:build slurm

package slurmtest

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parentVariable has this test binary start a cluster with a job, and wait to be killed.
const parentVariable = "SLURMTEST_PARENT"

// Of a test process that is killed, neither daemons nor jobs nor files are left.
func TestEndsWithTheProcess(t *testing.T) {
	if os.Getenv(parentVariable) != "" {
		c := Start(t)
		// The job leaves its session, and ignores what Slurm would send it.
		job := exec.Command("sbatch", "--output="+c.path("out"), "--wrap", "trap '' TERM; setsid sleep 1000 & echo started; wait")
		if out, err := job.CombinedOutput(); err != nil {
			t.Fatalf("sbatch: %v: %s", err, out)
		}
		c.Await("the job runs", func() bool {
			out, _ := os.ReadFile(c.path("out"))
			return string(out) == "started\n"
		})
		os.Stdout.WriteString("dir " + c.Dir + "\n")
		select {}
	}
	packages(t)
	parent := exec.Command(os.Args[0], "-test.run=^TestEndsWithTheProcess$")
	parent.Env = append(os.Environ(), parentVariable+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	dir, ok := strings.CutPrefix(strings.TrimSpace(line), "dir ")
	if err != nil || !ok {
		t.Errorf("the process said %q, %v", line, err)
	}
	if ok && len(members(dir)) < 8 { // three kinds of daemons, a step, a job
		t.Errorf("the cluster has the processes %v", members(dir))
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	if !ok {
		return
	}
	again, limit := time.NewTicker(50*time.Millisecond), time.After(awaitLimit)
	defer again.Stop()
	for {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			break
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("after %v there are %s and the processes %v", awaitLimit, dir, members(dir))
		}
	}
	if left := members(dir); len(left) > 0 {
		t.Errorf("the processes %v are left", left)
	}
}

// members are the commands of the cluster's processes.
func members(dir string) (commands []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(text), "SLURM_CONF="+dir+"/slurm.conf\x00") {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
			commands = append(commands, strings.TrimSpace(string(name)))
		}
	}
	return commands
}
