package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Task is one task of an Array, as Slurm's controller knows it.
type Task struct {
	Number   int    // in the Array
	Job      string // its job, such as 12_3
	State    string // Slurm's, such as RUNNING
	Restarts int
	Nodes    string // where it runs or ran
	Reason   string // why it waits or has ended; None
}

// ended are the states of jobs that do not run again. Any other state, also one of a later Slurm, is
// that of a task that may still run.
var ended = []string{"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"}

// Ended reports whether the task has ended and does not run again by itself.
func (t Task) Ended() bool { return slices.Contains(ended, t.State) }

// Held reports whether Slurm keeps the task waiting until Release, because it could not start it. This
// happens to tasks of a node that fails to start them, or that runs them while a controller that was
// killed no longer knows it.
func (t Task) Held() bool {
	return !t.Ended() && strings.Contains(strings.ReplaceAll(t.Reason, "_", " "), "requeued held")
}

// Release has Slurm start a job again that is held.
func Release(ctx context.Context, job string) error {
	_, err := tool(ctx, "", "scontrol", "release", job)
	return err
}

// Requeue has Slurm start a job again, also one that has failed. If it runs, its processes get SIGTERM.
func Requeue(ctx context.Context, job string) error {
	_, err := tool(ctx, "", "scontrol", "requeue", job)
	return err
}

// fields are what List asks squeue for. The name is last, because it may have any character.
const fields = "ArrayJobID:|,ArrayTaskID:|,State:|,RestartCnt:|,NodeList:|,Reason:|,Name:|"

// List returns the user's tasks of the Array of a name, in the order of their numbers. The controller
// forgets tasks some minutes after their end (MinJobAge), so a task that is missing has ended.
func List(ctx context.Context, name string) ([]Task, error) {
	out, err := tool(ctx, "", "squeue", "--noheader", "--array", "--states=all", "--user="+strconv.Itoa(os.Getuid()), "--Format="+fields)
	if err != nil {
		return nil, err
	}
	return parseTasks(out, name)
}

// parseTasks reads the lines of an array's tasks, and skips those of other jobs.
func parseTasks(out, name string) (tasks []Task, err error) {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, "|"+name+offset) {
			continue
		}
		t, err := parseTask(strings.Split(line, "|"), name)
		if err != nil {
			return nil, fmt.Errorf("squeue --Format=%s: %q: %w", fields, line, err)
		}
		tasks = append(tasks, t)
	}
	slices.SortStableFunc(tasks, func(a, b Task) int { return a.Number - b.Number })
	return tasks, nil
}

func parseTask(f []string, name string) (Task, error) {
	if len(f) != 8 || f[7] != "" {
		return Task{}, fmt.Errorf("want 7 fields, each with | after it")
	}
	first, err1 := strconv.Atoi(strings.TrimPrefix(f[6], name+offset))
	index, err2 := strconv.Atoi(f[1])
	restarts, err3 := strconv.Atoi(f[3])
	_, err4 := strconv.ParseUint(f[0], 10, 32)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Task{}, err
	}
	if f[2] == "" {
		return Task{}, errors.New("no state")
	}
	return Task{Number: first + index, Job: f[0] + "_" + f[1], State: f[2], Restarts: restarts, Nodes: f[4], Reason: f[5]}, nil
}

// Cancel cancels the tasks of the Array of a name that have not ended, and returns how many it found.
func Cancel(ctx context.Context, name string) (int, error) {
	tasks, err := List(ctx, name)
	if err != nil {
		return 0, err
	}
	var arrays []string
	n := 0
	for _, t := range tasks {
		if t.Ended() {
			continue
		}
		n++
		if array, _, _ := strings.Cut(t.Job, "_"); !slices.Contains(arrays, array) {
			arrays = append(arrays, array)
		}
	}
	if n == 0 {
		return 0, nil
	}
	_, err = tool(ctx, "", append([]string{"scancel"}, arrays...)...)
	return n, err
}
