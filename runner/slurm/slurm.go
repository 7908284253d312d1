// Package slurm submits array jobs to a Slurm cluster, asks for their tasks, and tells a process what
// its own Slurm job gives it. It uses the command line tools, and no accounting database.
package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ErrNoController is that Slurm's controller does not answer. It may answer later.
var ErrNoController = errors.New("the controller of Slurm does not answer")

// commandError is how one of Slurm's tools failed.
type commandError struct {
	Command []string
	Said    string // on stderr
	Err     error  // of exec.Cmd.Run, such as exit status 1
}

func (e *commandError) Error() string {
	text := strings.Join(e.Command, " ") + ": " + e.Err.Error()
	if e.Said != "" {
		text += ": " + e.Said
	}
	if errors.Is(e, ErrNoController) {
		return text + ": wait until the controller is back, and try again"
	}
	for _, r := range remedies {
		if strings.Contains(e.Said, r.said) {
			return text + ": " + r.remedy
		}
	}
	if errors.Is(e.Err, exec.ErrNotFound) {
		return text + ": run it where Slurm's tools are, such as the cluster's login node"
	}
	return text
}

// Unwrap returns the error of the command, and ErrNoController if that was the reason.
func (e *commandError) Unwrap() []error {
	for _, said := range noController {
		if strings.Contains(e.Said, said) {
			return []error{e.Err, ErrNoController}
		}
	}
	return []error{e.Err}
}

// noController is what Slurm's tools say if the controller is away, or goes away while they ask.
var noController = []string{"Unable to contact slurm controller", "Transport endpoint is not connected", "Connection refused", "Connection reset by peer",
	"Communication connection failure", "Communication shutdown failure", "Message send failure", "Message receive failure",
	"Socket timed out on send/recv operation", "Zero Bytes were transmitted or received", "Unexpected missing socket error"}

// remedies say what to do about what Slurm's tools say. The first that fits is taken.
var remedies = []struct{ said, remedy string }{
	{"Invalid generic resource (gres)", "--gres must name what the cluster has: sinfo -o '%P %N %G' shows it"},
	{"Invalid partition name", "sinfo -s lists the partitions: name one with --partition"},
	{"Invalid account", "name an account of yours with --account: sacctmgr show associations user=$USER lists them"},
	{"Requested time limit is invalid", "sinfo -o '%P %l' shows the longest --time of each partition"},
	{"Invalid job array specification", "the cluster allows fewer tasks: scontrol show config | grep MaxArraySize"},
	{"Requested node configuration is not available", "no node has as much: sinfo -N -o '%N %c %m %G' shows what nodes have"},
	{"violates accounting/QOS policy", "the cluster limits what you may submit: ask for less, or for another --account or --partition"},
}

// waitDelay is how long a tool that is told to end has.
const waitDelay = 5 * time.Second

// tool runs one of Slurm's tools and returns what it printed.
func tool(ctx context.Context, stdin string, command ...string) (string, error) {
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	var out, said bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &said
	c.Env, c.WaitDelay = environment(), waitDelay
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", &commandError{Command: command, Said: strings.TrimSpace(said.String()), Err: err}
	}
	return out.String(), nil
}

// environment is this process's without the variables that filter and sort what squeue and sinfo list and
// scancel cancels. Times are seconds since 1970, so that no time zone matters.
func environment() []string {
	env := []string{"SLURM_TIME_FORMAT=%s"}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SQUEUE_") && !strings.HasPrefix(name, "SINFO_") && !strings.HasPrefix(name, "SCANCEL_") && name != "SLURM_TIME_FORMAT" {
			env = append(env, variable)
		}
	}
	return env
}

// MaxArraySize is the number of tasks that the cluster allows in one array.
func MaxArraySize(ctx context.Context) (int, error) {
	const key = "MaxArraySize"
	out, err := tool(ctx, "", "scontrol", "show", "config")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) != key {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			return 0, fmt.Errorf("scontrol show config: %s: want a number, not %q", key, strings.TrimSpace(value))
		}
		if n < 1 {
			return 0, fmt.Errorf("scontrol show config: %s is %d: the cluster has no job arrays", key, n)
		}
		return n, nil
	}
	return 0, fmt.Errorf("scontrol show config: no %s", key)
}
