package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/caserun/caserun/runner/slurm"
)

// Names of clusters of real nodes: the nodes of a Slurm allocation, or parts of this machine, as in local:0+1:2+3@weight=2, where each
// part has its devices.
const (
	Slurm = "slurm"
	parts = "local:"
)

// Is reports whether a node's name is that of a cluster of real nodes.
func Is(name string) bool { return name == Slurm || strings.HasPrefix(name, parts) }

// mostWeight is that of a simulated node, too.
const mostWeight = 1_000_000

// place is where a node is.
type place struct {
	host    string // of the allocation; "": this machine
	devices string // as harness.Options.Devices; "": all
	weight  int    // 0: its devices
	node    string // as harness.Options.Node; "": local
}

// Check refuses a name that no cluster has.
func Check(name string) error {
	if name == Slurm {
		return nil
	}
	_, err := parse(name)
	return err
}

func parse(name string) (places []place, err error) {
	devices := map[string]bool{}
	for _, text := range strings.Split(strings.TrimPrefix(name, parts), ":") {
		var p place
		list, keys, has := strings.Cut(text, "@")
		if has {
			number, isWeight := strings.CutPrefix(keys, "weight=")
			if p.weight, err = strconv.Atoi(number); !isWeight || err != nil || p.weight < 1 || p.weight > mostWeight {
				return nil, fmt.Errorf("node %q: %s: want weight= with a number from 1 to %d", name, keys, mostWeight)
			}
		}
		for _, d := range strings.Split(list, "+") {
			switch {
			case d == "" || strings.ContainsAny(d, " ,"):
				return nil, fmt.Errorf("node %q: want devices of this machine for each node, as in local:0:1 or local:0+1:2+3@weight=2", name)
			case devices[d]:
				return nil, fmt.Errorf("node %q: two nodes cannot have device %s: name it once", name, d)
			}
			devices[d] = true
		}
		p.devices = strings.ReplaceAll(list, "+", ",")
		places = append(places, p)
	}
	return places, nil
}

// find finds the nodes of a cluster.
func find(ctx context.Context, name string) ([]place, error) {
	if name != Slurm {
		return parse(name)
	}
	hosts, err := slurm.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	places := make([]place, len(hosts))
	for i, host := range hosts {
		places[i].host = host
	}
	return places, nil
}

// title says in messages which node it is.
func (p place) title(i int) string {
	if p.host == "" {
		return fmt.Sprintf("%d (GPU %s)", i, strings.ReplaceAll(p.devices, ",", ", "))
	}
	return fmt.Sprintf("%d (%s)", i, p.host)
}

// command starts the node's program, which is this one.
func (p place) command() (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	if p.host == "" {
		return exec.Command(self, Command), nil
	}
	srun, err := exec.LookPath("srun")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("start a node: srun is not on the PATH: run caserun inside a Slurm allocation")
	}
	return exec.Command(srun, "--overlap", "--nodelist="+p.host, "--nodes=1", "--ntasks=1", "--unbuffered", self, Command), err
}

// Command is the hidden argument with which caserun runs as a node.
const Command = "serve-node"
