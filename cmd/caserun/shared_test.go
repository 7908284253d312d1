package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// Jobs that decide for themselves wait for each other, get what one that died had, and are
// recorded as others are; nothing stays in memory.
func TestMixWhoseJobsDecideThemselves(t *testing.T) {
	library, program := fakeNVML(t), buildStepJob(t)
	dir := fakeNode(t, "", "")
	most := 9 << 30 // of 16 GiB
	writeFiles(t, map[string]string{"m.yaml": fmt.Sprintf(`jobs:
- program: %[1]s
  args: begin:%[2]d hear:a sleep:30 abort
- program: %[1]s
  args: tell:a begin:%[2]d sleep:10 shrink:%[3]d sleep:10 free
- program: %[1]s
  args: begin:1000 grow:2000 print:granted free
`, program, most, most/2)})
	before := inMemory(t)
	status, text := finish(t, onFakes(dir, library, nil, "mix", "m.yaml", "--no-mps", "--devices", "0", "--sched", "schedgpu:arch=shared,queue=fifo"))
	if status != exitJobsFailed || !strings.Contains(text, "SIGABRT") {
		t.Fatalf("exit %d:\n%s", status, text)
	}
	_, jobs, _ := stored(t, 1)
	for i, want := range []string{"crash", "ok", "ok"} {
		if got := string(*jobs[i].Outcome); got != want {
			t.Errorf("job %d: %s, want %s", i, got, want)
		}
	}
	for _, task := range storedTasks(t, 1) {
		if task.GrantS == nil || task.ReleaseS == nil || task.Device == nil || *task.Device != 0 {
			t.Errorf("task of job %d: %+v", task.Job, task)
		}
		if task.Job == 2 && task.GrownBytes != 2000 {
			t.Errorf("it has grown by %d bytes, want 2000", task.GrownBytes)
		}
	}
	for _, path := range inMemory(t) {
		if !slices.Contains(before, path) {
			t.Errorf("left in memory: %s", path)
		}
	}
}

func storedTasks(t *testing.T, run int64) []results.Task {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tasks, err := s.Tasks(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func inMemory(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/dev/shm/caserun-*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What only the run's engine can do is refused where the clients decide.
func TestClientsThatDecideKnowFourPolicies(t *testing.T) {
	inTempDir(t)
	for sched, want := range map[string]string{
		"schedgpu:arch=shared,queue=largest-first": "queue=largest-first",
		"schedgpu:arch=shared,age-limit=3":         "age-limit=3",
		"schedgpu:room=0.1,arch=shared":            "room=0.1",
		"schedgpu:arch=shared,managed=exceed":      "managed=exceed",
		"schedgpu:arch=shared,isolate=known":       "isolate=known",
	} {
		if status, _, errs := caserun(t, "mix", "W1", "--sched", sched); status != exitUsage || !strings.Contains(errs, want) || !strings.Contains(errs, "arch=server") {
			t.Errorf("%s: exit %d: %s", sched, status, errs)
		}
	}
}
