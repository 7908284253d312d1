package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// divided is a node whose first GPU has three instances of MIG, and whose second is whole.
func divided(t *testing.T) []string {
	t.Helper()
	return []string{"FAKE_MIG=3", "FAKE_CUDA_DEVICES=4", "FAKE_CUDA_KERNEL_US=5000", "FAKE_NVML_PROCESSES=" + t.TempDir()}
}

// Instances of MIG are devices of a live run. Each job is on the one that the store names, computes what it computes alone, and has
// nothing on others.
func TestInstancesOfMIG(t *testing.T) {
	dir := inTempDir(t)
	var alone string // what a job computes
	for i, c := range []struct {
		args []string
		on   []string // IDs of the devices
	}{
		{[]string{"--sched", "sa"}, []string{"0:0", "0:1", "0:2", "1"}},
		{[]string{"--sched", "cg", "--workers", "2", "--devices", "0:2,MIG-ca5e0000-0000-0000-0000-000000000001", "--mem-cap", "48MiB"}, []string{"0:1", "0:2"}},
		{[]string{"--sched", "schedgpu", "--devices", "0:1"}, []string{"0:1"}},
		{[]string{"--sched", "case-alg3", "--workers", "4", "--mem-cap", "48MiB"}, []string{"0:0", "0:1", "0:2", "1"}},
		{[]string{"--sched", "vgpu:n=4,victims=0", "--devices", "0:1", "--workers", "4"}, []string{"0:1"}},
	} {
		status, text := onFakeNode(t, dir, divided(t), append([]string{"mix", "native/fake-node.yaml", "--node", "local"}, c.args...)...)
		if status != exitOK {
			t.Fatalf("%v: exit %d:\n%s", c.args, status, text)
		}
		id := int64(i + 1)
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		devices, err := s.Devices(t.Context(), id)
		if err != nil || len(devices) != len(c.on) {
			t.Fatalf("%v: devices %+v (%v)", c.args, devices, err)
		}
		for n, d := range devices {
			kind, sms := "MIG", 16
			number := []string{"0:0", "0:1", "0:2", "1"}
			if c.on[n] == "1" {
				kind, sms = "GPU", 132
			}
			want := fmt.Sprintf("%s-ca5e0000-0000-0000-0000-0000000000%02x", kind, slices.Index(number, c.on[n]))
			if d.UUID != want || d.SMs != sms || (kind == "MIG") != (d.Profile != nil && *d.Profile == "1g.2gb" && *d.GPU == "GPU-ca5e0000-0000-0000-0000-0000000000ee") {
				t.Errorf("%v: device %d is %+v; want %s", c.args, n, d, want)
			}
		}
		jobs, outputs := jobsOf(t, s, id, 4)
		for n, job := range jobs {
			computed, after, _ := strings.Cut(outputs[n], "after: ")
			if alone == "" {
				alone = computed
			}
			if *job.Outcome != results.OK || computed != alone || job.Device == nil {
				t.Errorf("%v: job %d: %s: %+v\n%s\nwant\n%s", c.args, n, *job.Outcome, job, outputs[n], alone)
				continue
			}
			// The program says on which device its context was, as CUDA numbers those of the node.
			at := slices.Index([]string{"0:0", "0:1", "0:2", "1"}, c.on[*job.Device])
			if !strings.HasPrefix(after, fmt.Sprintf("contexts 1 first %d ", at)) {
				t.Errorf("%v: job %d is on device %s, and said %q", c.args, n, c.on[*job.Device], after)
			}
		}
	}
}

// An instance that is destroyed takes its job with it, and the others go on.
func TestInstanceIsDestroyed(t *testing.T) {
	losesSecond(t, append(divided(t), "FAKE_NVML_MIG_GONE=1"), "FAKE_NVML_MIG_GONE_WHEN", "instance 0:1 (MIG-ca5e0000-0000-0000-0000-000000000001) was destroyed")
}

// A program that asks CUDA about devices is bound before its first launch, with what its mix declares, and the record says so.
func TestBoundEarlyOnInstances(t *testing.T) {
	dir := inTempDir(t)
	const mix = "name: early\njobs:\n  - {program: native/lazy/build/13/lazy_program, args: [free_memory], memory: 20MiB, name: asks, stdin: goes-on}\n" +
		"  - {program: native/lazy/build/13/lazy_program, args: [basic], memory: 20MiB, name: launches}\n"
	for name, text := range map[string]string{"early.yaml": mix, "goes-on": "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, text := onFakeNode(t, dir, append(divided(t), "FAKE_CUDA_MEMORY=268435456"), "mix", "early.yaml", "--node", "local", "--sched", "case-alg3")
	if status != exitOK {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	events, err := s.Events(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	early := 0
	for _, e := range events {
		if e.Kind == results.EventEarly {
			early++
			if *e.Job != 0 || !strings.Contains(e.Detail, "before its first launch, with 44 MiB: ") { // the declared bytes, an allowance of 16 MiB and CUDA's heap
				t.Errorf("%+v", e)
			}
		}
	}
	if early != 1 {
		t.Errorf("%d events %s in %+v", early, results.EventEarly, events)
	}
}

func TestProfileOnAnInstance(t *testing.T) {
	dir := inTempDir(t)
	status, text := onFakeNode(t, dir, divided(t), "profile", "--untraced", "--devices", "0:1", "--", "native/lazy/build/13/lazy_program", "swapped", "4")
	if status != exitOK || !strings.Contains(text, "Fake GPU MIG 1g.2gb") {
		t.Errorf("exit %d:\n%s", status, text)
	}
}

func TestRefusedOnInstances(t *testing.T) {
	dir := inTempDir(t)
	const program = "program: native/lazy/build/13/lazy_program, args: [swapped, \"4\"]"
	for name, job := range map[string]string{"two": "gpus: 2, memory: 16MiB, binding: declared", "pin": "pin: true"} {
		if err := os.WriteFile(name+".yaml", []byte(fmt.Sprintf("name: %s\njobs:\n  - {%s, %s}\n", name, program, job)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const seesOne = ", and a process sees only one instance of MIG: leave it out, or choose whole GPUs with --devices"
	for _, c := range []struct {
		env    string
		args   []string
		says   string
		status int
	}{
		{"", []string{"native/fake-node.yaml", "--devices", "0"}, "--devices 0: GPU 0 is divided into instances (MIG)", exitUsage},
		{"", []string{"native/fake-node.yaml", "--devices", "0:1,MIG-ca5e0000-0000-0000-0000-000000000001"}, "are the same GPU, 0:1 (MIG-", exitUsage},
		{"FAKE_NVML_MIG_DENIED=2", []string{"native/fake-node.yaml"}, "GPU 0:2 cannot be used: ", exitInfrastructure},
		{"FAKE_MIG=4", []string{"native/fake-node.yaml", "--devices", "1"}, "no GPU 1: want one or more of 0:0 (", exitUsage},
		{"", []string{"native/fake-node.yaml", "--sched", "vgpu-preempt:via=checkpoint"}, "the driver takes no checkpoints of processes on instances of MIG", exitUsage},
		{"", []string{"native/fake-node.yaml", "--sched", "case-alg3", "--probe", "explicit"}, "a process must get its instance of MIG before it starts CUDA", exitUsage},
		{"", []string{"two.yaml", "--sched", "case-alg3"}, "job 0 (lazy_program) has gpus: 2" + seesOne, exitUsage},
		{"", []string{"pin.yaml", "--sched", "case-alg3"}, "job 0 (lazy_program) has pin: true" + seesOne, exitUsage},
	} {
		status, text := onFakeNode(t, dir, append(divided(t), c.env), append([]string{"mix", "--node", "local"}, c.args...)...)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%v %s: exit %d, want %d and %q:\n%s", c.args, c.env, status, c.status, c.says, text)
		}
	}
}
