package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// portionsOf are the rows of the portions of a run, and its jobs.
func portionsOf(t *testing.T, run int64) ([]results.Rank, []results.Job) {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	portions, err := s.Ranks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return portions, jobs
}

// Six portions on two devices are one job. Each has its number, its files and its row, and no device has two at a time.
func TestFakeNodeDoesPortions(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"m.yaml": "jobs:\n- {program: /bin/sh, args: [-c, 'echo \"$CASE_PORTION of $CASE_PORTIONS$CASE_RANK\"; sleep 0.2'], portions: 6, name: work}\n" +
		"- {program: /bin/sh, args: [-c, 'echo \"none$CASE_PORTION\"'], name: other}\n"})
	status, text := onFakeNode(t, dir, []string{"CASE_PORTION=7"}, "mix", "m.yaml", "--node", "local", "--sched", "sa")
	portions, jobs := portionsOf(t, 1)
	if status != exitOK || len(jobs) != 2 || len(portions) != 6 || jobs[0].Command != `6 portions: /bin/sh -c "echo \"$CASE_PORTION of $CASE_PORTIONS$CASE_RANK\"; sleep 0.2"` {
		t.Fatalf("exit %d, jobs %+v, portions %+v:\n%s", status, jobs, portions, text)
	}
	ends := map[int]float64{}
	last, cpu := 0.0, 0.0
	for i, p := range portions {
		said, err := os.ReadFile(one(t, fmt.Sprintf("caserun-runs/run-1-*/job-0000-portion-%d.out", i)))
		if want := fmt.Sprintf("%d of 6\n", i); err != nil || string(said) != want {
			t.Errorf("portion %d says %q (%v)", i, said, err)
		}
		if !p.Portion || p.Rank != i || p.PID == nil || *p.Outcome != results.OK || p.Device == nil || *p.StartS < ends[*p.Device] {
			t.Errorf("portion %d: %+v", i, p)
		}
		ends[*p.Device] = *p.EndS
		last, cpu = max(last, *p.EndS), cpu+*p.UserS
	}
	if j := jobs[0]; len(ends) != 2 || *j.StartS != *portions[0].StartS || *j.EndS != last || *j.UserS != cpu || *j.Devices != "0,1" || *j.Outcome != results.OK {
		t.Errorf("devices %v, job %+v", ends, j)
	}
	if said, err := os.ReadFile(one(t, "caserun-runs/run-1-*/job-0001.out")); err != nil || string(said) != "none\n" {
		t.Errorf("the other job says %q (%v)", said, err)
	}
	if status, out, errs := caserun(t, "report", "1", "-v"); status != exitOK || !strings.Contains(out, "portions of run 1") {
		t.Errorf("exit %d:\n%s%s", status, out, errs)
	}
	if status, _, errs := caserun(t, "replay", "1", "--sched", "cg"); status != exitUsage || !strings.Contains(errs, "job 0 has portions") {
		t.Errorf("exit %d: %s", status, errs)
	}
}

// one is the file that a pattern means.
func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q (%v)", pattern, found, err)
	}
	return found[0]
}

// Under a task-bound scheduler each portion asks for its device by itself, and the job has the tasks of all.
func TestFakeNodePlacesPortionsTaskByTask(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"m.yaml": "jobs:\n- {program: native/lazy/build/13/lazy_program, args: [swapped, \"3\"], portions: 4, name: swapped}\n"})
	for run, sched := range []string{"case-alg3", "vgpu:n=2"} {
		status, text := onFakeNode(t, dir, nil, "mix", "m.yaml", "--node", "local", "--sched", sched)
		portions, jobs := portionsOf(t, int64(run+1))
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := s.Tasks(t.Context(), int64(run+1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if status != exitOK || err != nil || len(jobs) != 1 || len(portions) != 4 || len(tasks) != 4 {
			t.Fatalf("%s: exit %d, jobs %+v, portions %+v, tasks %+v (%v):\n%s", sched, status, jobs, portions, tasks, err, text)
		}
		for i, task := range tasks {
			if task.Job != 0 || task.Seq != i || task.ReleaseS == nil {
				t.Errorf("%s: task %d: %+v", sched, i, task)
			}
		}
	}
}

// The first portion that fails ends the others, whether it is killed or runs too long, and those that have not started do not start.
func TestFakeNodePortionThatFails(t *testing.T) {
	dir := inTempDir(t)
	for i, c := range []struct{ script, limit, want string }{
		{"test $CASE_PORTION = 1 && kill -9 $$; exec sleep 60", "1h", "crash: portion 1: ended by SIGKILL"},
		{"exec sleep 60", "500ms", ": it ran longer than its limit"},
	} {
		writeFiles(t, map[string]string{"m.yaml": fmt.Sprintf("jobs:\n- {program: /bin/sh, args: [-c, '%s'], portions: 6}\n- {program: /bin/true}\n", c.script)})
		status, text := onFakeNode(t, dir, nil, "mix", "m.yaml", "--node", "local", "--sched", "sa", "--timeout", c.limit)
		if status != exitJobsFailed {
			t.Fatalf("%s: exit %d:\n%s", c.script, status, text)
		}
		portions, jobs := portionsOf(t, int64(i+1))
		if len(portions) != 6 || len(jobs) != 2 || *jobs[1].Outcome != results.OK || !strings.Contains(text, c.want) || !strings.Contains(text, "1 of 2 jobs did not end ok") {
			t.Fatalf("%s: exit %d, portions %+v, jobs %+v:\n%s", c.script, status, portions, jobs, text)
		}
		for _, p := range portions[2:] {
			if p.StartS != nil || *p.Outcome != results.Cancelled || !strings.HasPrefix(p.Detail, "ended because portion ") {
				t.Errorf("%s: portion %d: %+v", c.script, p.Rank, p)
			}
		}
		if files, err := filepath.Glob(fmt.Sprintf("caserun-runs/run-%d-*/job-0000*.out", i+1)); err != nil || len(files) != 2 {
			t.Errorf("%s: files %q (%v)", c.script, files, err)
		}
	}
}

// A run that is interrupted stops the portions that run, and starts no others.
func TestFakeNodeInterruptedPortions(t *testing.T) {
	dir := inTempDir(t)
	writeFiles(t, map[string]string{"m.yaml": "jobs:\n- {program: /bin/sh, args: [-c, '> up-$CASE_PORTION; exec sleep 60'], portions: 6, dir: .}\n"})
	p := onTheFakes(t, dir, nil, "mix", "m.yaml", "--node", "local", "--sched", "sa")
	var out bytes.Buffer
	p.Stdout, p.Stderr = &out, &out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for up := []string(nil); len(up) < 2 && t.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
		up, _ = filepath.Glob("up-*")
	}
	if err := p.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	portions, jobs := portionsOf(t, 1)
	if p.ProcessState.ExitCode() != exitInterrupted || len(jobs) != 1 || *jobs[0].Outcome != results.Cancelled || slices.ContainsFunc(portions, func(p results.Rank) bool { return *p.Outcome != results.Cancelled }) || len(portions) != 6 ||
		portions[1].StartS == nil || portions[2].StartS != nil {
		t.Errorf("exit %d, jobs %+v, portions %+v:\n%s", p.ProcessState.ExitCode(), jobs, portions, &out)
	}
}

// What portions cannot be combined with is an error at its line.
func TestRefusedPortions(t *testing.T) {
	inTempDir(t)
	for keys, want := range map[string]string{
		"portions: 0":                         `m.yaml:2:57: bad portions "0"; write a whole number from 1 to 1000`,
		"portions: 1001":                      `m.yaml:2:57: bad portions "1001"; write a whole number from 1 to 1000`,
		"portions: 2, ranks: 2":               "m.yaml:2:47: portions: 2 beside ranks: 2: ranks start and end together, portions one after another; remove one",
		"portions: 2, gpus: 2":                "m.yaml:2:60: gpus: 2 beside portions: 2: each portion has one device at a time; remove one",
		"portions: 2, until_others_end: true": "m.yaml:2:47: portions: 2 beside until_others_end: true: portions end by themselves; remove one",
		"portions: 2, profile: {kernel: 1s}":  "m.yaml:2: job p has portions: 2, and the nodes of a cluster do not take portions: use one node, or ranks",
	} {
		writeFiles(t, map[string]string{"m.yaml": fmt.Sprintf("jobs:\n- {name: p, program: /bin/true, memory: 1GiB, %s}\n", keys)})
		if status, _, errs := caserun(t, "mix", "m.yaml", "--node", "sim:2x1xV100", "--sched", "cluster-rr/sa"); status != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", keys, status, errs)
		}
	}
}
