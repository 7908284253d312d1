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

// Evaluation is the sweeps that measure what a paper's evaluation does.
type Evaluation struct {
	Paper   *paper.Paper
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
	devices, _, _, err = backend.Size()
	return devices, errors.Join(err, backend.Close())
}

// onNode are the sweeps of one node. A sweep is left out if the paper has none of its results for the system.
func (e Evaluation) onNode(ctx context.Context, system string, devices int) ([]*Plan, error) {
	var planned []*Plan
	for _, s := range e.Paper.Sweeps {
		mixes := e.chosen(s.Mixes)
		scheds, err := e.Paper.SchedulersOf(s, system, devices)
		switch {
		case err != nil:
			return nil, err
		case len(mixes) == 0 || len(scheds) == 0 && len(e.Mixes) == 0:
			continue
		case len(scheds) == 0:
			others := strings.Join(e.Paper.SystemsOf(s), " and ")
			return nil, refuse("--mixes %s: the paper has results of %s for %s alone, and this node is compared with %s: add --as %[3]s, or leave the mixes out",
				strings.Join(mixes, ","), s.Of, others, system)
		}
		p, err := e.plan(ctx, s.Name, mixes, scheds)
		switch {
		case err != nil && (s.Optional == "" || len(e.Mixes) > 0):
			return nil, err
		case err != nil: // a suite may lack the programs
			e.Say("leaving out %s (%s): %v", s.Of, s.Optional, err)
		default:
			planned = append(planned, p)
		}
	}
	return planned, nil
}

func (e Evaluation) plan(ctx context.Context, name string, mixes, scheds []string) (*Plan, error) {
	o := Options{Name: name, Mixes: mixes, Scheds: scheds, Probes: []results.Probe{e.Probe}, Reps: e.Reps, Warmups: -1, Jobs: 1, NoiseGiven: e.NoiseGiven}
	if err := o.Validate(true); err != nil {
		return nil, err
	}
	return New(ctx, e.Options, o, e.Say)
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
