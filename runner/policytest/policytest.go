// Package policytest holds a scheduler that a user names, which may be a program, to the rules of all policies.
package policytest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// Workloads is how many workloads a test has by default.
const Workloads = schedtest.Workloads

// Test is a test of a scheduler on random workloads, so many under each order of the queue.
type Test struct {
	Sched     string
	Seed      uint64
	Workloads int
	Display   Display
}

// Display shows how far a test is.
type Display interface {
	Begin(what string, workloads int)
	Next() // another workload begins; one that fails is made small after the last
	End()
}

// BrokenError is that the scheduler breaks a rule.
type BrokenError struct{ error }

// Validate checks what needs no run.
func (t Test) Validate() error {
	if t.Seed == 0 || t.Workloads <= 0 {
		return fmt.Errorf("--seed %d, --workloads %d: want 1 or more", t.Seed, t.Workloads)
	}
	s, err := cluster.ParseScheduler(t.Sched, 1, policies.Parse)
	switch {
	case err != nil:
		return err
	case s.Head != nil: // which has all its parameters
		return nil
	case !s.External:
		if t.Sched != s.Name {
			return fmt.Errorf("%s: the test draws the parameters itself: name %s alone", t.Sched, s.Name)
		}
		return nil
	}
	for _, drawn := range s.Params {
		if strings.Contains(t.Sched, ","+drawn.Name+"=") && drawn.Name != "path" && drawn.Name != "sha256" && drawn.Name != "timeout" {
			return fmt.Errorf("%s: the test draws %s itself: leave it out", t.Sched, drawn.Name)
		}
	}
	return nil
}

// Run tests the scheduler, up to its first failure, which is a BrokenError and has the smallest workload as a table.
func (t Test) Run(ctx context.Context) (tables []*report.Table, err error) {
	s := &subject{Test: t, ctx: ctx}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.prepare(); err != nil {
		return nil, err
	}
	table := &report.Table{Title: "test of " + t.Sched, Columns: []report.Column{{Name: "queue"}, {Name: "workloads"}, {Name: "verdict"}}}
	for _, queue := range s.queues() {
		failed, err := s.under(queue)
		if err != nil {
			return nil, err
		}
		order := string(queue)
		if order == "" {
			order = "-"
		}
		if failed == nil {
			table.Add(order, t.Workloads, "ok")
			continue
		}
		table.Add(order, nil, "FAILED: "+failed.Why)
		why, _, _ := strings.Cut(failed.Why, "\n")
		return []*report.Table{table, stepsOf(order, failed)}, BrokenError{fmt.Errorf("%s breaks a rule (queue %s, seed %d): %s", t.Sched, order, t.Seed, why)}
	}
	return []*report.Table{table}, nil
}

func stepsOf(queue string, f *schedtest.Failure) *report.Table {
	t := &report.Table{Title: "the smallest workload found on which it fails, queue " + queue,
		Columns: []report.Column{{Name: "step"}, {Name: "call"}, {Name: "drawn"}, {Name: "decided"}}}
	for i, s := range f.Steps {
		t.Add(i, s.Do, s.With, s.Decided)
	}
	return t
}

// queues are the orders of the queue that the scheduler takes; "" if it has no such parameter, as the heads of clusters.
func (t *subject) queues() []engine.Order {
	if orders := t.tested.Info.Orders(); orders != nil {
		return orders
	}
	return []engine.Order{""}
}

// subject is the scheduler that is tested.
type subject struct {
	Test
	ctx     context.Context
	tested  schedtest.Subject
	rules   schedtest.Rules
	program *external.Policy // nil unless a program decides
	head    *cluster.Policy  // that is tested instead of the scheduler of each node; nil: there is none
	first   error            // with which the program failed
}

// prepare starts the program that decides, if there is one, to learn what it promises.
func (t *subject) prepare() error {
	s, err := cluster.ParseScheduler(t.Sched, 1, policies.Parse)
	if err != nil {
		return err
	}
	if s, err = harness.Pinned(s); err != nil {
		return harness.Refuse(err)
	}
	if head, is := s.Head.(cluster.Policy); is {
		return t.prepareHead(head)
	}
	t.tested = schedtest.Registered(s.Info)
	t.rules = schedtest.Promises[s.Name]
	if s.External {
		if t.program, err = external.Start(*s.Program); err != nil {
			return err
		}
		p := t.program.Promises()
		t.rules = schedtest.Rules{MemoryHard: p.MemoryHard, OneJobPerDevice: p.OneJobPerDevice, Selective: !p.PlacesWhatFits}
		t.tested.Settle = t.settle
	}
	settle := t.tested.Settle
	t.tested.Settle = func(parameters string, devices int) (policies.Scheduler, error) {
		if t.ctx.Err() != nil {
			return policies.Scheduler{}, context.Cause(t.ctx)
		}
		t.Display.Next()
		return settle(parameters, devices)
	}
	return nil
}

// prepareHead is prepare for the head of a cluster.
func (t *subject) prepareHead(head cluster.Policy) error {
	t.head = &head
	if head.Program() == nil {
		return nil
	}
	started, err := external.StartHead(*head.Program())
	t.program = started.Policy
	return err
}

// settleHead makes the policy of the head, and starts its program again if it has failed.
func (t *subject) settleHead() (cluster.Policy, error) {
	if t.ctx.Err() != nil {
		return cluster.Policy{}, context.Cause(t.ctx)
	}
	t.Display.Next()
	if t.program == nil {
		return *t.head, nil
	}
	if err := t.program.Err(); err != nil {
		t.keep(err)
		again, err := external.StartHead(*t.head.Program())
		if err != nil {
			return cluster.Policy{}, err
		}
		t.program = again.Policy
	}
	return t.head.By(external.Head{Policy: t.program}), nil
}

// under tests under an order of the queue.
func (t *subject) under(queue engine.Order) (*schedtest.Failure, error) {
	t.Display.Begin(strings.TrimSpace(t.Sched+" "+string(queue)), t.Workloads)
	failed, err := schedtest.Outside(t.Seed, t.Workloads, t.property(queue))
	t.Display.End()
	if err == nil {
		err = context.Cause(t.ctx)
	}
	if t.program != nil && t.program.Err() != nil {
		t.keep(t.program.Err())
	}
	if err != nil && t.first != nil {
		err = fmt.Errorf("%w; by then: %w", err, t.first)
	}
	if failed != nil && t.first != nil {
		failed.Why = strings.Replace(failed.Why, schedtest.PolicyFailed, t.first.Error(), 1)
	}
	return failed, err
}

func (t *subject) property(queue engine.Order) func(*rapid.T) {
	if t.head != nil {
		return schedtest.Head(t.settleHead)
	}
	if bound, preempts := schedtest.Bounds[t.tested.Info.Name]; preempts {
		return t.tested.Preempting(queue, bound)
	}
	if t.program != nil && t.program.TakesBack() {
		return t.tested.Preempting(queue, schedtest.NoBound)
	}
	return t.tested.Workload(queue, t.rules)
}

// settle makes the scheduler of the program, and starts the program again if it has failed: what
// makes a workload small tries many that fail.
func (t *subject) settle(parameters string, devices int) (policies.Scheduler, error) {
	s, err := policies.Parse(policies.With(t.Sched, parameters), devices)
	if err != nil {
		return s, err
	}
	if err := t.program.Err(); err != nil {
		t.keep(err)
		again, err := external.Start(*s.Program)
		if err != nil {
			return s, err
		}
		t.program = again
	}
	return t.program.Scheduler(s), nil
}

// keep keeps the first error of the program.
func (t *subject) keep(err error) {
	if t.first == nil {
		t.first = err
	}
}

func (t *subject) close() error {
	if t.program == nil {
		return nil
	}
	return t.program.Close()
}
