package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
)

// paperNodes are the selected runs by node, with what the paper's figures need
// of them.
func paperNodes(ctx context.Context, db *store.Store, settings config, o paperOptions, stderr io.Writer) ([]paper.Node, error) {
	runs, err := paperRuns(ctx, db, settings, o, stderr)
	if err != nil {
		return nil, err
	}
	wanted := nodeNames(settings.Node)
	if err := haveRuns(runs, wanted); err != nil {
		return nil, usageError(err)
	}
	return nodesOf(ctx, db, runs, wanted, o)
}

// haveRuns refuses a node that none of the runs is on. Where there are no runs at
// all, that is no node's fault.
func haveRuns(runs []results.Run, wanted []string) error {
	var there []string
	for _, r := range runs {
		if !slices.Contains(there, r.Node) {
			there = append(there, r.Node)
		}
	}
	for _, node := range wanted {
		if len(runs) > 0 && !slices.Contains(there, node) {
			return fmt.Errorf("--node %s: none of the selected runs is on it: they are on %s", node, strings.Join(there, " and "))
		}
	}
	return nil
}

// nodesOf groups runs by node; wanted are the nodes that count, all where it is
// empty.
func nodesOf(ctx context.Context, db *store.Store, runs []results.Run, wanted []string, o paperOptions) ([]paper.Node, error) {
	index := map[string]int{}
	var nodes []paper.Node
	for _, r := range runs {
		if len(wanted) > 0 && !slices.Contains(wanted, r.Node) {
			continue
		}
		i, known := index[r.Node]
		if !known {
			n, err := newPaperNode(ctx, db, r, o)
			if err != nil {
				return nil, err
			}
			i, index[r.Node] = len(nodes), len(nodes)
			nodes = append(nodes, n)
		}
		nodes[i].Runs = append(nodes[i].Runs, r)
	}
	for i := range nodes {
		n := &nodes[i]
		var ids []int64
		for _, r := range n.Runs {
			ids = append(ids, r.ID)
		}
		devices, err := db.DevicesOf(ctx, store.Filter{IDs: ids})
		if err != nil {
			return nil, infrastructureError(err)
		}
		n.Machines = results.SeveralMachines(n.Runs, devices)
	}
	return nodes, nil
}

// paperRuns are the complete runs that the flags select.
func paperRuns(ctx context.Context, db *store.Store, settings config, o paperOptions, stderr io.Writer) ([]results.Run, error) {
	if len(o.sweeps) == 0 && settings.Tag != "" {
		runs, err := db.Runs(ctx, store.Filter{Tag: settings.Tag, Status: results.Complete})
		if err == nil && len(runs) == 0 {
			return nil, withStatus(exitNothing, fmt.Errorf("paper: no complete run in %s has the tag %s; caserun report%s lists what there is", settings.DB, settings.Tag, settings.storeFlag()))
		}
		return runs, infrastructureError(err)
	}
	sweeps := o.sweeps
	if len(sweeps) == 0 {
		sweeps = []string{"latest"}
	}
	var runs []results.Run
	taken := map[int64]bool{} // a sweep named twice counts once
	for _, arg := range sweeps {
		sweep, err := findSweep(ctx, db, arg)
		if err != nil {
			return nil, err
		}
		if taken[sweep.ID] {
			continue
		}
		taken[sweep.ID] = true
		switch standing(sweep) {
		case results.Complete:
		case results.Running:
			fmt.Fprintf(stderr, "caserun: sweep %d is under way: the runs that it has done count\n", sweep.ID)
		default:
			fmt.Fprintf(stderr, "caserun: sweep %d is interrupted: its complete runs count; caserun sweep --resume %d%s does the others\n", sweep.ID, sweep.ID, settings.storeFlag())
		}
		more, err := db.Runs(ctx, store.Filter{Sweep: sweep.ID, Status: results.Complete})
		if err != nil {
			return nil, infrastructureError(err)
		}
		runs = append(runs, more...)
	}
	return runs, nil
}

// newPaperNode is a run's node without its runs.
func newPaperNode(ctx context.Context, db *store.Store, r results.Run, o paperOptions) (paper.Node, error) {
	devices, err := db.Devices(ctx, r.ID)
	if err != nil {
		return paper.Node{}, infrastructureError(err)
	}
	system, err := o.systemFor(r.Node, len(devices))
	if err != nil {
		return paper.Node{}, err
	}
	hardware := report.DeviceNames(devices)
	if len(devices) > 0 {
		hardware += fmt.Sprintf(", of each %s for jobs", report.Human(float64(devices[0].CapacityBytes), report.Bytes))
	}
	return paper.Node{Name: r.Node, Hardware: hardware, Mode: r.Mode, Devices: len(devices), System: system,
		Segments: func(run int64) ([]results.Segment, error) {
			segments, err := db.Segments(ctx, run)
			return segments, infrastructureError(err)
		},
		Trace: func(run int64) (results.Traced, error) {
			jobs, err := db.Jobs(ctx, run)
			if err != nil {
				return results.Traced{}, infrastructureError(err)
			}
			kernels, err := db.Kernels(ctx, run)
			return results.Traced{Jobs: jobs, Kernels: kernels}, infrastructureError(err)
		}}, nil
}

// nodeNames splits --node of caserun paper.
func nodeNames(text string) []string {
	var out []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
