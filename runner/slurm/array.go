package slurm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Array is many tasks of one command, each on one node.
type Array struct {
	// Name is that by which List and Cancel find the tasks. It must be unique among the user's jobs.
	Name  string
	Tasks int // numbered from 1
	// Concurrent is the largest number of tasks at a time, and so of nodes; 0: as many as Slurm starts.
	Concurrent int
	// Command is what each task runs. An argument that is TaskNumber stands for the task's number. The
	// program must be where the nodes find it.
	Command []string
	// Logs is an existing directory, on all nodes, for the tasks' output.
	Logs string

	// These are sbatch's, which has its own defaults.
	Gres, Partition, Account string
	Time                     time.Duration // rounded up to minutes
	// Container is an Apptainer image in which the command runs; "": none.
	Container string
	// Args are further arguments of sbatch. They override Gres to Time.
	Args []string
}

const (
	// TaskNumber stands for the number of a task in its command.
	TaskNumber = "{task}"
	// Warning is how long before the end of its time a task gets SIGTERM. Slurm may be 60 s early.
	Warning = 120 * time.Second
	// offset separates an array's name from the number of its first task in the name of its jobs.
	offset = "+"
)

// Submit submits the tasks, as several arrays if the cluster limits their size. It returns the numbers
// of the arrays' jobs. If one is refused, none is left.
func (a Array) Submit(ctx context.Context) (jobs []string, err error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	size, err := MaxArraySize(ctx)
	if err != nil {
		return nil, err
	}
	undo := context.WithoutCancel(ctx)
	for _, call := range a.calls(size) {
		command := call.Command
		if call.Waits {
			command = append(command, After(jobs[len(jobs)-1]))
		}
		out, err := tool(ctx, call.Script, command...)
		job := ""
		if err == nil {
			if job, err = parsable(out); err != nil { // it is in the queue, whatever its number is
				_, cancelled := Cancel(undo, a.Name)
				err = errors.Join(err, cancelled)
			}
		}
		if err != nil {
			if len(jobs) > 0 {
				_, cancelled := tool(undo, "", append([]string{"scancel"}, jobs...)...)
				err = errors.Join(err, cancelled)
			}
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// Call is a call of sbatch for some of an array's tasks.
type Call struct {
	Command []string
	Script  string // on the standard input
	Waits   bool   // the call gets After of the job of the call before
}

// After is the argument with which a job waits for the end of another one.
func After(job string) string { return "--dependency=afterany:" + job }

// Calls are the calls that Submit makes where the cluster allows so many tasks in one array.
func (a Array) Calls(size int) ([]Call, error) {
	if err := a.validate(); err != nil {
		return nil, err
	}
	return a.calls(size), nil
}

func (a Array) calls(size int) (calls []Call) {
	for first := 1; first <= a.Tasks; first += size {
		calls = append(calls, Call{Command: a.arguments(first, min(size, a.Tasks+1-first)), Script: a.script(first),
			Waits: a.Concurrent > 0 && first > 1}) // the limit is one array's, so arrays go one after another
	}
	return calls
}

func (a Array) validate() error {
	switch {
	case a.Name == "" || strings.ContainsAny(a.Name, offset+"|\n"):
		return fmt.Errorf("name of an array job %q: want a text without +, | and newlines", a.Name)
	case a.Tasks < 1:
		return fmt.Errorf("array job %s: %d tasks: want at least one", a.Name, a.Tasks)
	case a.Concurrent < 0:
		return fmt.Errorf("array job %s: %d tasks at a time: want at least one, or 0 for no limit", a.Name, a.Concurrent)
	case len(a.Command) == 0:
		return fmt.Errorf("array job %s: no command", a.Name)
	case strings.Contains(a.Logs, "%"):
		return fmt.Errorf("array job %s: %s: Slurm replaces %% in the names of directories for output: want another directory", a.Name, a.Logs)
	case strings.Contains(a.Logs, `\`):
		return fmt.Errorf("array job %s: %s: Slurm finds no directory for output with a \\ in its name: want another directory", a.Name, a.Logs)
	}
	return nil
}

// arguments are sbatch's command line for the tasks from first on. They are not #SBATCH lines of the
// script, because a variable of the user's such as SBATCH_PARTITION overrides such lines.
func (a Array) arguments(first, tasks int) []string {
	out := []string{"sbatch", "--parsable"}
	for _, o := range []struct{ name, value string }{{"gres", a.Gres}, {"partition", a.Partition}, {"account", a.Account}} {
		if o.value != "" {
			out = append(out, "--"+o.name+"="+o.value)
		}
	}
	if a.Time > 0 {
		out = append(out, fmt.Sprintf("--time=%.0f", math.Ceil(a.Time.Minutes())))
	}
	out = append(out, a.Args...)
	indices := fmt.Sprintf("0-%d", tasks-1)
	if a.Concurrent > 0 {
		indices += fmt.Sprintf("%%%d", a.Concurrent)
	}
	return append(out, "--job-name="+a.Name+offset+strconv.Itoa(first), "--array="+indices, "--nodes=1", "--requeue", "--open-mode=append",
		"--output="+filepath.Join(a.Logs, "%x-%a.log"), // %x is the job's name, %a the position in the array
		fmt.Sprintf("--signal=B:TERM@%.0f", Warning.Seconds()))
}

// jobEnd has a container know when its job ends (Allocation.End), because it has no squeue.
const jobEnd = `[ -n "$SLURM_JOB_END_TIME" ] || SLURM_JOB_END_TIME=$(SLURM_TIME_FORMAT=%s squeue --noheader --states=all --jobs="${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" --format=%e)
export SLURM_JOB_END_TIME
`

// script is what tasks run, from the task numbered first on. The command takes the place of the shell:
// Slurm's warning goes to the shell, which would answer it only after the command's end.
func (a Array) script(first int) string {
	command, before := a.Command, ""
	if a.Container != "" {
		before = jobEnd
		in := []string{"apptainer", "exec"}
		if a.Gres != "" {
			in = append(in, "--nv")
		}
		command = append(append(in, a.Container), command...)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "#!/bin/sh\ntask=$((%d + SLURM_ARRAY_TASK_ID))\n%sexec", first, before)
	for _, argument := range command {
		quoted := "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
		if argument == TaskNumber {
			quoted = `"$task"`
		}
		out.WriteString(" " + quoted)
	}
	out.WriteString("\n")
	return out.String()
}

// parsable reads what sbatch --parsable prints: the job's number, and a cluster's name after a
// semicolon if there are several. What a cluster has sbatch print beside comes before.
func parsable(out string) (job string, err error) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	job, _, _ = strings.Cut(lines[len(lines)-1], ";")
	if _, err := strconv.ParseUint(job, 10, 32); err != nil {
		return "", fmt.Errorf("sbatch --parsable: want the number of a job, not %q", strings.TrimSpace(out))
	}
	return job, nil
}
