package slurm

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Allocation is what Slurm gives the job that this process runs in, on this node. Its GPUs are those
// that CUDA_VISIBLE_DEVICES names.
type Allocation struct {
	Job      string // its number, such as 12, or 12_3 for a task of an array
	Restarts int    // how often Slurm has requeued the job and started it again
	CPUs     int    // host threads that the job may use on this node
}

// Current returns the allocation of this process; nil if Slurm did not start it. A shell of salloc on a
// login node is not in its allocation.
func Current() (*Allocation, error) {
	job := os.Getenv("SLURM_JOB_ID")
	if job == "" || os.Getenv("SLURMD_NODENAME") == "" {
		return nil, nil
	}
	// One task of each array has the array's own number as its SLURM_JOB_ID, which Slurm's tools take for
	// all tasks.
	if array, task := os.Getenv("SLURM_ARRAY_JOB_ID"), os.Getenv("SLURM_ARRAY_TASK_ID"); array != "" && task != "" {
		job = array + "_" + task
	}
	a := &Allocation{Job: job, CPUs: runtime.NumCPU()} // NumCPU counts what a cpuset or an affinity leaves
	for _, v := range []struct {
		name  string
		least int
		set   func(int)
	}{
		{"SLURM_RESTART_COUNT", 0, func(n int) { a.Restarts = n }},
		{"SLURM_CPUS_ON_NODE", 1, func(n int) { a.CPUs = min(a.CPUs, n) }},
	} {
		text, given := os.LookupEnv(v.name)
		if !given {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.least {
			return nil, fmt.Errorf("job %s of Slurm: %s is %q: want a number from %d on", job, v.name, text, v.least)
		}
		v.set(n)
	}
	return a, nil
}

// End returns when the job's time ends; the zero time if it has no end.
func (a *Allocation) End(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SLURM_JOB_END_TIME") // of Slurm 23.02 and later, and in a container
	if text == "" {
		out, err := tool(ctx, "", "squeue", "--noheader", "--jobs="+a.Job, "--states=all", "--format=%e")
		if err != nil {
			return time.Time{}, err
		}
		text = strings.TrimSpace(out)
	}
	return parseEnd(text)
}

// parseEnd reads the end of a job in seconds since 1970.
func parseEnd(text string) (time.Time, error) {
	switch text {
	case "N/A", "NONE", "Unknown", "0":
		return time.Time{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("end of the Slurm job: want seconds since 1970, not %q", text)
	}
	return time.Unix(seconds, 0), nil
}
