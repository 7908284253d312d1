//go:build ucx

package ivmtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
)

// overTCP has the nodes of this host copy over TCP, as those of several hosts do.
func overTCP(t *testing.T) {
	t.Helper()
	t.Setenv("UCX_TLS", "tcp")
	t.Setenv("UCX_NET_DEVICES", "lo")
}

// What holds on one node holds on several: calls, copies after random calls, threads, a PE that is ended while it makes a mirror.
func TestSeveralNodesDoWhatOneDoes(t *testing.T) {
	overTCP(t)
	for _, program := range []string{"calls", "threads", "fill"} {
		ivmd, path := built(t, program)
		run(t, ivmd, "--nodes", "3", path).must(t)
	}
	ivmd, path := built(t, "model")
	for seed := range chance.Seeds(t, 8, 1000) {
		nodes := strconv.FormatUint(1+seed%4, 10)
		run(t, ivmd, "--nodes", nodes, path, strconv.FormatUint(seed, 10), "400").must(t)
	}
}

// Nodes stage what they copy from and to GPUs.
func TestCopiesOnGPUsOfSeveralNodes(t *testing.T) {
	overTCP(t)
	for seed := range chance.Seeds(t, 3, 200) {
		for types, master := range map[string]string{"cgg": strconv.FormatUint(seed%3, 10), "ccg": "2"} {
			c := onGPUs(t, nil, "model", strconv.FormatUint(seed, 10), "200", types, master)
			c.Args = slices.Insert(c.Args, 1, "--nodes", "3")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			finish(t, c).must(t)
		}
	}
}

// Programs on several nodes have the result that they have on one.
func TestProgramsOnSeveralNodes(t *testing.T) {
	overTCP(t)
	for program, arguments := range sizes {
		ivmd, path := benchmark(t, program)
		run(t, ivmd, append([]string{"--nodes", "2", path, "--verify", "--devices", "3"}, strings.Fields(arguments)...)...).must(t)
	}
}

// A node that is killed ends the application, and so does a PE or the head. No process is left on any node.
func TestNothingIsLeftOfNodesAfterAKill(t *testing.T) {
	overTCP(t)
	ivmd, program := built(t, "ends")
	for victim, status := range map[string]int{"head": -1, "node": 124, "PE": 124} {
		t.Run(victim, func(t *testing.T) {
			c := application(t, ivmd, "-v", "--nodes", "3", program, "none")
			said := new(output)
			c.Stderr = said
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			for len(pids(t, said.String())) < 4 {
				time.Sleep(time.Millisecond)
			}
			nodes, pes := children(t, c.Process.Pid, "--join"), pids(t, said.String())
			if len(nodes) != 3 {
				t.Fatalf("nodes %v", nodes)
			}
			killed, line := c.Process.Pid, ""
			switch victim {
			case "node":
				killed, line = nodes[1], "ivmd: node node1 is lost, so its application ends\n"
			case "PE":
				killed, line = pes[1], fmt.Sprintf("ivmd: PE 1 (pid %d) was killed by signal 9 (Killed), so its application ends\n", pes[1])
			}
			if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait() // its error is the status, which is looked at
			if c.ProcessState.ExitCode() != status || !strings.Contains(said.String(), line) {
				t.Errorf("%v, want %d and %s in\n%s", c.ProcessState, status, line, said)
			}
			for _, pid := range append(nodes, pes...) {
				wantGone(t, pid)
			}
		})
	}
}

// Who connects while nodes join, and says nothing or not enough, keeps nobody waiting.
func TestStrangersDoNotDelayNodes(t *testing.T) {
	overTCP(t)
	ivmd, program := built(t, "calls")
	c := application(t, ivmd, "--nodes", "3", program)
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	head := ""
	for head == "" && time.Since(began) < 20*time.Second {
		for _, node := range children(t, c.Process.Pid, "--join") {
			environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", node)) // the node may have ended
			if _, after, found := strings.Cut(string(environment), "IVM_HEAD="); found {
				head, _, _ = strings.Cut(after, "\x00")
			}
		}
	}
	for i := range 6 {
		stranger, err := net.Dial("tcp", head)
		if err != nil {
			break // all nodes have joined
		}
		defer stranger.Close()
		_, _ = stranger.Write(make([]byte, i)) // it may be closed by now
	}
	finish(t, c).must(t)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Without its network ivmd has one node, and says what several need.
func TestNodesWithoutTheirNetwork(t *testing.T) {
	ivmd, program := built(t, "calls")
	alone := filepath.Join(t.TempDir(), "ivmd")
	if said, err := exec.Command("cp", ivmd, alone).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, said)
	}
	run(t, alone, program).must(t)
	if e := run(t, alone, "--nodes", "2", program); e.status != 125 || !strings.Contains(e.stderr, "Several nodes need UCX (Debian: libucx-dev)") {
		t.Errorf("status %d, %s", e.status, e.stderr)
	}
}
