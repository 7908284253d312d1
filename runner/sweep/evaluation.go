package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
)

// Evaluation is the sweeps that measure what the CASE paper's evaluation does.
type Evaluation struct {
	Options harness.Options // of all runs; the node is one of Nodes
	Nodes   []string        // none: the node of runs that name none
	Probe   results.Probe   // of all runs
	Mixes   []string        // none: all of the paper's
	Reps    int             // 0: by default
	// NoiseGiven is as in Options.
	NoiseGiven bool
	// System is the paper's system with which a node is compared.
	System func(node string, devices int) (string, error)
	Say    harness.Say
}

// Plan plans the sweeps of all nodes, and checks them.
func (e Evaluation) Plan(ctx context.Context) ([]*Plan, error) {
	names := e.Nodes
	if len(names) == 0 {
		names = []string{""}
	}
	var planned []*Plan
	nodeOf := map[string]string{}
	for _, name := range names {
		e.Options.Node = name
		devices, err := e.open(ctx)
		if err != nil {
			return nil, err
		}
		system, err := e.System(e.Options.Node, devices)
		if err != nil {
			return nil, err
		}
		if other, taken := nodeOf[system]; taken {
			return nil, refuse("--node: %s and %s would both be compared with the paper's %s: name one", other, e.Options.Node, system)
		}
		nodeOf[system] = e.Options.Node
		more, err := e.onNode(ctx, system, devices)
		if err != nil {
			return nil, err
		}
		planned = append(planned, more...)
	}
	return planned, nil
}

// open settles the node's name and returns the number of its devices.
func (e *Evaluation) open(ctx context.Context) (devices int, err error) {
	backend, err := nodes.Open(ctx, e.Options, e.Say)
	if err != nil {
		return 0, err
	}
	e.Options.Node = backend.Options().Node
	devices, _, err = backend.Size()
	return devices, errors.Join(err, backend.Close())
}

// onNode are the sweeps of one node: Rodinia's, and Darknet's where the paper has results of
// Darknet and the node can run it.
func (e Evaluation) onNode(ctx context.Context, system string, devices int) ([]*Plan, error) {
	var planned []*Plan
	plan := func(name string, mixes, scheds []string) error {
		o := Options{Name: name, Mixes: mixes, Scheds: scheds, Probes: []results.Probe{e.Probe}, Reps: e.Reps, Warmups: -1, Jobs: 1, NoiseGiven: e.NoiseGiven}
		if err := o.Validate(true); err != nil {
			return err
		}
		p, err := New(ctx, e.Options, o, e.Say)
		if err != nil {
			return err
		}
		planned = append(planned, p)
		return nil
	}
	if rodinia := e.chosen(paper.Mixes()); len(rodinia) > 0 {
		if err := plan("CASE with Rodinia", rodinia, paper.Schedulers(system, devices)); err != nil {
			return nil, err
		}
	}
	darknet := e.chosen(append(paper.Darknet(), paper.LargeDarknet))
	switch {
	case len(darknet) == 0:
	case system == paper.DarknetSystem:
		err := plan("CASE with Darknet", darknet, []string{"sa", "schedgpu", "case-alg3"})
		if err != nil && len(e.Mixes) > 0 {
			return nil, err
		}
		if err != nil { // a suite may have only Rodinia's programs
			e.Say("leaving out Darknet (Table 8, Figures 8 and 9): %v", err)
		}
	case len(e.Mixes) > 0:
		return nil, refuse("--mixes %s: the paper has results of Darknet for %s alone, and this node is compared with %s: add --as %[2]s, or leave the mixes out",
			strings.Join(darknet, ","), paper.DarknetSystem, system)
	}
	return planned, nil
}

// chosen are the names that Mixes has, or all names if it is empty.
func (e Evaluation) chosen(names []string) []string {
	if len(e.Mixes) == 0 {
		return names
	}
	var out []string
	for _, name := range names {
		if slices.ContainsFunc(e.Mixes, func(m string) bool { return strings.EqualFold(m, name) }) {
			out = append(out, name)
		}
	}
	return out
}
