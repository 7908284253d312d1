// Package nodes opens the node that a request names.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/remote"
	"github.com/caserun/caserun/runner/sim"
)

const (
	// Local is this machine's GPUs.
	Local = "local"
	// fallback is the node of runs that name none, where there is no GPU.
	fallback = "sim:4xV100"

	simulatedPrefix = "sim:"
)

// ofDevice is what follows a comma that parts the instances of a simulated device, and no nodes.
var ofDevice = regexp.MustCompile(`^ *([0-9]+x)?[0-9]+g\.`)

// Split splits a list of nodes at its commas. An empty node stays, and is refused as others are.
func Split(list string) []string {
	if list == "" {
		return nil
	}
	var names []string
	for _, name := range strings.Split(list, ",") {
		if last := len(names) - 1; last >= 0 && strings.Contains(names[last], "/") && ofDevice.MatchString(name) {
			names[last] += "," + strings.TrimSpace(name)
		} else {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// IsLive reports whether a canonical name is that of real GPUs: this machine, or a cluster.
func IsLive(name string) bool { return name == Local || remote.Is(name) }

// Check refuses a name that is not a node's.
func Check(name string) error {
	_, err := Canonical(name)
	return err
}

// Canonical is the name by which runs record a node: sim:2xp100 is sim:2xP100. It refuses a name that is not a node's.
func Canonical(name string) (string, error) {
	switch {
	case name == Local:
		return name, nil
	case remote.Is(name):
		return name, harness.Refuse(remote.Check(name))
	case !strings.HasPrefix(name, simulatedPrefix) && !sim.IsFile(name):
		return "", harness.Refuse(fmt.Errorf("node %q: use local, or sim:COUNTxMODEL such as %s, or a file of a simulated cluster's nodes, whose name ends in .csv, or slurm for the nodes of an allocation", name, fallback))
	}
	name, err := sim.Canonical(name)
	return name, harness.Refuse(err)
}

// Offer offers names that complete what is typed, each with its description behind a tab.
func Offer(typed string) []string {
	if offers := sim.Offer(typed); offers != nil {
		return offers
	}
	return []string{Local + "\tthe GPUs of this machine", "local:0:1\ttwo of them as the nodes of a cluster", remote.Slurm + "\tthe nodes of this Slurm allocation", "sim:4xV100\tfour simulated V100s", "sim:2xP100\ttwo simulated P100s",
		"sim:4xH200\tfour simulated H200s", "sim:8xA100\teight simulated A100s",
		"sim:2xC2050+1xQuadro2000\ta simulated node of devices that differ"}
}

// Settle is the canonical name of the node that the options name. Where they name none, it is this machine, or a
// simulated node if this machine has no GPU.
func Settle(ctx context.Context, o harness.Options, say harness.Say) (string, error) {
	switch {
	case (strings.HasPrefix(o.Node, simulatedPrefix) || sim.IsFile(o.Node)) && o.Devices != "":
		return "", harness.Refuse(fmt.Errorf("--devices %s: %s has none of this machine's GPUs: name --node local, or no devices: leave out --devices, the key devices of caserun.yaml and CASERUN_DEVICES", o.Devices, o.Node))
	case remote.Is(o.Node) && o.Devices != "":
		return "", harness.Refuse(fmt.Errorf("--devices %s: %s says which GPUs each node has: leave out --devices, the key devices of caserun.yaml and CASERUN_DEVICES", o.Devices, o.Node))
	case o.Node != "":
		return Canonical(o.Node)
	}
	gpus, err := live.OpenGPUs(ctx, o.Devices)
	if errors.Is(err, nvml.ErrNoGPU) && !o.Trace && o.Devices == "" {
		say("%v; running SIMULATED on %s", err, fallback)
		return fallback, nil
	}
	if err != nil {
		return "", advise(err)
	}
	return Local, gpus.Close()
}

// advise adds to an error what to do where there is no GPU.
func advise(err error) error {
	if !errors.Is(err, nvml.ErrNoGPU) {
		return err
	}
	return fmt.Errorf("%w: caserun doctor shows what is missing; to simulate, name --node %s, without --require-live", err, fallback)
}

// Session makes runs one after the other, and keeps for the next one what takes long to make. Close must follow the
// last.
type Session struct {
	swap live.Swap
}

// Open settles the node and opens it, to ask about it. Close must follow a success.
func Open(ctx context.Context, o harness.Options, say harness.Say) (harness.Backend, error) {
	var err error
	if o.Node, err = Settle(ctx, o, say); err != nil {
		return nil, err
	}
	return new(Session).Open(ctx, o, say)
}

// Open opens a node that is settled.
func (s *Session) Open(ctx context.Context, o harness.Options, say harness.Say) (harness.Backend, error) {
	switch {
	case remote.Is(o.Node):
		return remote.Open(ctx, o, say)
	case o.Node != Local:
		return sim.Open(o)
	}
	backend, err := live.Open(ctx, o, &s.swap, say)
	return backend, advise(err)
}

// Close frees what the session has kept.
func (s *Session) Close() error { return s.swap.Close() }

// Run opens the request's node, makes the run on it and closes it.
func (s *Session) Run(ctx context.Context, r harness.Request) (harness.Outcome, error) {
	var err error
	if r.Node, err = Settle(ctx, r.Options, func(format string, args ...any) { r.Fallback = fmt.Sprintf(format, args...) }); err != nil {
		return harness.Outcome{}, err
	}
	backend, err := s.Open(ctx, r.Options, r.Say)
	if err != nil {
		return harness.Outcome{}, err
	}
	if r.Given != nil && r.Know == nil {
		r.Know = func(ctx context.Context, m *mixes.Mix, known profiles.Set) (profiles.Set, error) {
			return Know(ctx, r.Options, m, known, r.Say)
		}
	}
	o, err := harness.Execute(ctx, backend, r)
	return o, errors.Join(err, backend.Close())
}
