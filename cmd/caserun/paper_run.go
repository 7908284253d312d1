package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store"
)

// paperSweeps does the sweeps of --run and returns their numbers. All nodes and
// the directory of --out are checked, and all plans stored, before the first run.
func paperSweeps(ctx context.Context, settings config, o paperOptions, stderr io.Writer) (ids []string, err error) {
	nodes := nodeNames(settings.Node)
	if len(nodes) == 0 {
		nodes = []string{""} // what runs use where the user names none
	}
	var planned []*matrix
	nodeOf := map[string]string{}
	for _, node := range nodes {
		settings.Node = node
		if settings.Node, err = settleNode(settings, stderr); err != nil {
			return nil, err
		}
		devices, _, err := nodeSize(settings)
		if err != nil {
			return nil, err
		}
		system, err := o.systemFor(settings.Node, devices)
		if err != nil {
			return nil, err
		}
		if other, taken := nodeOf[system]; taken {
			return nil, usageError(fmt.Errorf("--node: %s and %s would both be compared with the paper's %s: name one", other, settings.Node, system))
		}
		nodeOf[system] = settings.Node
		more, err := paperMatrices(ctx, settings, o, system, devices, stderr)
		if err != nil {
			return nil, err
		}
		planned = append(planned, more...)
	}
	if o.out != "" {
		if err := makeWritable(o.out); err != nil {
			return nil, infrastructureError(err)
		}
	}
	db, err := openStore(settings)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, infrastructureError(db.Close())) }()
	var sweeps []sweepRun
	for _, m := range planned {
		s, err := storePlan(ctx, db, m, stderr)
		if err != nil {
			return nil, err
		}
		sweeps, ids = append(sweeps, s), append(ids, strconv.FormatInt(s.id, 10))
	}
	for i, s := range sweeps {
		if err := s.run(ctx, ""); err != nil {
			var later strings.Builder
			for _, id := range ids[i+1:] {
				fmt.Fprintf(&later, "; caserun sweep --resume %s%s begins the next", id, settings.storeFlag())
			}
			return nil, fmt.Errorf("%w%s; caserun paper --sweep %s%s makes the tables", err, later.String(), strings.Join(ids, ","), settings.storeFlag())
		}
	}
	return ids, nil
}

// paperMatrices are the sweeps of one node: Rodinia, and Darknet where the paper has
// results of it and the node can run it.
func paperMatrices(ctx context.Context, settings config, o paperOptions, system string, devices int, stderr io.Writer) ([]*matrix, error) {
	var planned []*matrix
	plan := func(name string, mixes, scheds []string) error {
		s := sweepOptions{Name: name, Mixes: mixes, Scheds: scheds, Reps: o.reps, Warmups: -1, Jobs: 1}
		if err := s.Validate(true); err != nil {
			return err
		}
		m, err := newMatrix(ctx, settings, s, stderr)
		if err != nil {
			return err
		}
		planned = append(planned, m)
		return nil
	}
	if rodinia := o.chosen(paper.Mixes()); len(rodinia) > 0 {
		if err := plan("CASE with Rodinia", rodinia, paper.Schedulers(system, devices)); err != nil {
			return nil, err
		}
	}
	darknet := o.chosen(append(paper.Darknet(), paper.LargeDarknet))
	switch {
	case len(darknet) == 0:
	case system == paper.DarknetSystem:
		err := plan("CASE with Darknet", darknet, []string{"sa", "schedgpu", "case-alg3"})
		if err != nil && len(o.mixes) > 0 {
			return nil, err
		}
		if err != nil { // a suite may have Rodinia's programs alone
			fmt.Fprintf(stderr, "caserun: leaving out Darknet (Table 8, Figures 8 and 9): %v\n", err)
		}
	case len(o.mixes) > 0:
		return nil, usageError(fmt.Errorf("--mixes %s: the paper has results of Darknet for %s alone, and this node is compared with %s: add --as %[2]s, or leave the mixes out",
			strings.Join(darknet, ","), paper.DarknetSystem, system))
	}
	return planned, nil
}

// chosen is those of the mixes that --mixes names, all where it is not given.
func (o paperOptions) chosen(names []string) []string {
	if len(o.mixes) == 0 {
		return names
	}
	var out []string
	for _, name := range names {
		if slices.ContainsFunc(o.mixes, func(m string) bool { return strings.EqualFold(m, name) }) {
			out = append(out, name)
		}
	}
	return out
}

// storePlan stores a sweep's plan, from when on it has a number.
func storePlan(ctx context.Context, db *store.Store, m *matrix, stderr io.Writer) (sweepRun, error) {
	sweep, err := m.record()
	if err != nil {
		return sweepRun{}, err
	}
	plan := m.plan()
	id, err := db.CreateSweep(ctx, sweep, plan)
	if err != nil {
		return sweepRun{}, infrastructureError(err)
	}
	fmt.Fprintf(stderr, "caserun: sweep %d: %s on %s\n", id, runCount(len(plan)), sweep.Node)
	return sweepRun{matrix: m, id: id, store: db, jobs: 1, now: time.Now, stderr: stderr}, nil
}
