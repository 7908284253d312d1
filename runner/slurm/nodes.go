package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// gone are the states of nodes on which no task starts until somebody acts, or the node comes back.
var gone = []string{"down", "drained", "draining", "error", "fail", "failing", "inval"}

// Gone reports whether a state of NodeStates is that of a node on which no task starts.
func Gone(state string) bool { return slices.Contains(gone, state) }

// NodeStates returns the states of nodes, such as idle or down. Nodes that Slurm does not know are missing. The
// controller calls a node that does not answer down only after SlurmdTimeout.
func NodeStates(ctx context.Context, nodes ...string) (map[string]string, error) {
	out, err := tool(ctx, "", "sinfo", "--noheader", "--all", "--Node", "--nodes="+strings.Join(nodes, ","), "--format=%N|%T|")
	if err != nil {
		return nil, err
	}
	return parseStates(out)
}

// Hosts returns the names of the nodes of the allocation that this process was started in.
func Hosts(ctx context.Context) ([]string, error) {
	list := os.Getenv("SLURM_JOB_NODELIST")
	if list == "" {
		return nil, errors.New("not in a Slurm allocation: start caserun from an sbatch script or a salloc shell")
	}
	out, err := tool(ctx, "", "scontrol", "show", "hostnames", list)
	return strings.Fields(out), err
}

// parseStates reads sinfo's lines. A node in several partitions has several lines. Signs after a state say
// more, such as * of a node that does not answer.
func parseStates(out string) (map[string]string, error) {
	states := map[string]string{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 3 || f[0] == "" || f[1] == "" || f[2] != "" {
			return nil, fmt.Errorf("sinfo --format=%%N|%%T|: %q: want a node and its state, each with | after it", line)
		}
		states[f[0]] = strings.TrimRight(f[1], "*~#!%$@^-")
	}
	return states, nil
}
