//go:build slurm

package schedshm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/runner/schedshm"
	"github.com/caserun/caserun/runner/slurm/slurmtest"
)

// Independent jobs of Slurm share a GPU, as docs/guide/cluster.md says: with its prolog they decide among themselves whose memory
// fits. Those that are killed and cancelled give back what they hold.
func TestSlurmJobsShareAGPU(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, prolog, _ := strings.Cut(string(guide), "$ cat /etc/slurm/schedgpu\n")
	prolog, _, _ = strings.Cut(prolog, "```")
	lazy := nativetest.Build(t, "lazy", "libcase.so", "programs")
	program, fakeNode := filepath.Join(lazy, "build/13/lazy_program"), filepath.Join(lazy, "../fake-node")
	dir, logs, held := memory(t), t.TempDir(), t.TempDir()
	prolog = strings.NewReplacer("/usr/local/lib/caserun/", lazy+"/", "/dev/shm/", dir+"/").Replace(prolog)
	if err := os.WriteFile(logs+"/prolog", []byte(prolog), 0o755); err != nil {
		t.Fatal(err)
	}
	c := slurmtest.Start(t, "TaskProlog="+logs+"/prolog", "PartitionName=shared Nodes=n1 ExclusiveUser=YES")

	// A small program needs 576 MiB for its context, 8 for CUDA's heap and 18 for its data, a large one 36. So there is room for two
	// small ones, or for a large one.
	const room, small, large = 1210 * mib, "12", "24"
	t.Setenv("FAKE_CUDA_DEVICES", "1")
	t.Setenv("FAKE_CUDA_MEMORY", strconv.Itoa(room))
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		said, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(said)
	}
	computed := func(said string) string { before, _, _ := strings.Cut(said, "after: "); return before }
	alone := map[string]string{small: computed(run(fakeNode, program, "swapped", small)), large: computed(run(fakeNode, program, "swapped", large))}
	shared := []string{"--partition=shared", "--gres=shard:1"}
	submit := func(name string) {
		t.Helper()
		run(slices.Concat([]string{fakeNode, "sbatch"}, shared, []string{"--job-name=" + name, "--output=" + logs + "/" + name, "--wrap", "exec " + program + " swapped " + small})...)
	}
	path := filepath.Join(dir, "schedgpu-"+strconv.Itoa(os.Geteuid()))
	// await waits until so many clients hold memory and so many wait for it, and returns who holds it.
	await := func(holdings, waiting int) (holders []int) {
		t.Helper()
		c.Await(strconv.Itoa(holdings)+" clients hold memory, and "+strconv.Itoa(waiting)+" wait", func() bool {
			s, err := schedshm.Read(path)
			if err == nil && (s.Used(0) > room || s.Devices[0].CapacityBytes != room) {
				t.Fatalf("clients were granted %d bytes of %d: %+v", s.Used(0), room, s)
			}
			holders = nil
			for _, h := range s.Holdings {
				holders = append(holders, int(h.Process.PID))
			}
			return err == nil && len(s.Holdings) == holdings && len(s.Requests) == waiting
		})
		return holders
	}
	state := func(name string) string {
		return strings.TrimSpace(run("squeue", "-h", "-t", "all", "-o", "%T", "-n", name))
	}

	t.Setenv("SWAPPED_MEET", held+",3") // these two wait for a third, and hold their memory
	submit("held")
	submit("held")
	holders := await(2, 0)
	t.Setenv("SWAPPED_MEET", "")
	jobs := []string{"small1", "small2", "small3", "small4"}
	for _, job := range jobs {
		submit(job)
	}
	await(2, 2) // the node has four shards

	if err := syscall.Kill(holders[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, job := range jobs {
		c.Await(job+" has ended", func() bool { return !slices.Contains([]string{"PENDING", "RUNNING", "COMPLETING"}, state(job)) })
		said, err := os.ReadFile(filepath.Join(logs, job))
		if got := state(job); err != nil || got != "COMPLETED" || computed(string(said)) != alone[small] {
			t.Errorf("%s: %s (%v)\n%s\nwant\n%s", job, got, err, said, alone[small])
		}
	}

	done := make(chan string, 1)
	go func() {
		said, err := exec.Command(fakeNode, slices.Concat([]string{"srun"}, shared, []string{program, "swapped", large})...).CombinedOutput()
		if err != nil {
			said = append(said, err.Error()...)
		}
		done <- string(said)
	}()
	if left := await(1, 1); !slices.Contains(left, holders[1]) {
		t.Errorf("the processes %v hold memory, and not %d", left, holders[1])
	}
	run("scancel", "--name=held")
	c.Await("srun has ended", func() bool { return len(done) > 0 })
	if said := <-done; computed(said) != alone[large] {
		t.Errorf("srun:\n%s\nwant\n%s", said, alone[large])
	}
	c.Await("no job is left", func() bool { return run("squeue", "-h") == "" })
	if s, err := schedshm.Read(path); err != nil || len(s.Holdings) != 1 || len(s.Requests) != 0 {
		t.Errorf("%v: there are %+v and %+v; want what the last client had, until another comes", err, s.Holdings, s.Requests)
	}
}
