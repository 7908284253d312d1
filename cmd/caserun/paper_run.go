package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/store"
)

// paperSweeps does the sweeps of --run and returns their numbers. All nodes and
// the directory of --out are checked before the first run.
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
		more, err := paperMatrices(settings, o.reps, system, devices, stderr)
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
	for _, m := range planned {
		id, err := doSweep(ctx, db, m, stderr)
		if err != nil && id > 0 {
			err = fmt.Errorf("%w; caserun paper --sweep %d%s makes the tables", err, id, settings.storeFlag())
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	return ids, nil
}

// paperMatrices are the sweeps of one node: Rodinia, and Darknet where the node
// can run it.
func paperMatrices(settings config, reps int, system string, devices int, stderr io.Writer) ([]*matrix, error) {
	plan := func(name string, mixes, scheds []string) (*matrix, error) {
		s := sweepOptions{Name: name, Mixes: mixes, Scheds: scheds, Reps: reps, Warmups: -1, Jobs: 1}
		if err := s.Validate(true); err != nil {
			return nil, err
		}
		return newMatrix(settings, s, stderr)
	}
	rodinia, err := plan("CASE with Rodinia", paper.Mixes(), paper.Schedulers(system, devices))
	if err != nil {
		return nil, err
	}
	if system != "4xV100" { // where the paper has its Darknet results
		return []*matrix{rodinia}, nil
	}
	darknet, err := plan("CASE with Darknet", append(paper.Darknet(), paper.LargeDarknet), []string{"sa", "schedgpu", "case-alg3"})
	if err != nil {
		fmt.Fprintf(stderr, "caserun: leaving out Darknet (Table 8, Figures 8 and 9): %v\n", err)
		return []*matrix{rodinia}, nil
	}
	return []*matrix{rodinia, darknet}, nil
}

// doSweep stores a sweep's plan, from when on it has a number, and carries it
// out.
func doSweep(ctx context.Context, db *store.Store, m *matrix, stderr io.Writer) (int64, error) {
	sweep, err := m.record()
	if err != nil {
		return 0, err
	}
	plan := m.plan()
	id, err := db.CreateSweep(ctx, sweep, plan)
	if err != nil {
		return 0, infrastructureError(err)
	}
	fmt.Fprintf(stderr, "caserun: sweep %d: %d runs on %s\n", id, len(plan), sweep.Node)
	r := sweepRun{matrix: m, id: id, store: db, jobs: 1, now: time.Now, stderr: stderr}
	return id, r.run(ctx, "")
}
