package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/cmd/caserun/config"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/runner/display"
	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// schedulersTestOptions are what schedulers test is asked for.
type schedulersTestOptions struct {
	asked
	sched     string
	seed      uint64
	workloads int
}

func newSchedulersTest() *cobra.Command {
	var o schedulersTestOptions
	c := &cobra.Command{
		Use:   "test SCHEDULER",
		Short: "Check that a policy keeps the rules of all policies, on random workloads",
		Long: `Let a scheduler decide about random workloads on random nodes, under each order
of the queue, and check what it decides: no device beyond its capacity, every
task granted once or refused, everything given back at the end, the same
decisions for the same calls. SCHEDULER is a name from caserun schedulers, or a
program of yours as exec:PATH. A program is also held to what its greeting
promises.

A workload that fails is made small and printed. 1@0 is task 1 granted device 0,
!1 task 1 refused, +1@0 grown, -1@0 growth refused. The exit status is then 1.`,
		Example: `  caserun schedulers test exec:./policy.py
  caserun schedulers test case-alg3 --workloads 1000 --seed 7`,
		Args:              named("SCHEDULER"),
		ValidArgsFunction: atMost(1, completeScheduler),
		RunE:              verb(&o),
	}
	c.Flags().Uint64Var(&o.seed, "seed", 1, "seed of the workloads: the same `SEED` makes the same")
	config.NoSetting(c.Flags(), "seed")
	c.Flags().IntVar(&o.workloads, "workloads", schedtest.Workloads, "`NUMBER` of workloads under each order of the queue")
	addFormatFlag(c)
	return c
}

func (o *schedulersTestOptions) settle(c *cobra.Command, args []string) error {
	o.sched = args[0]
	if err := o.asked.settle(c, args); err != nil {
		return err
	}
	if o.seed == 0 || o.workloads <= 0 {
		return fmt.Errorf("--seed %d, --workloads %d: want 1 or more", o.seed, o.workloads)
	}
	s, err := policies.Parse(o.sched, 1)
	if err != nil {
		return err
	}
	if s.External {
		for _, drawn := range s.Params {
			if strings.Contains(o.sched, ","+drawn.Name+"=") && drawn.Name != "path" && drawn.Name != "sha256" && drawn.Name != "timeout" {
				return fmt.Errorf("%s: the test draws %s itself: leave it out", o.sched, drawn.Name)
			}
		}
	} else if o.sched != s.Name {
		return fmt.Errorf("%s: the test draws the parameters itself: name %s alone", o.sched, s.Name)
	}
	return nil
}

func (o *schedulersTestOptions) do(c *cobra.Command) (err error) {
	t := &tested{ctx: c.Context(), text: o.sched}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.prepare(); err != nil {
		return err
	}
	table := &report.Table{Title: "test of " + o.sched, Columns: []report.Column{{Name: "queue"}, {Name: "workloads"}, {Name: "verdict"}}}
	for _, queue := range queuesOf(t.subject.Info) {
		t.begin(c, queue, o.workloads)
		failed, err := schedtest.Outside(o.seed, o.workloads, t.property(queue))
		t.end(c)
		if err == nil {
			err = context.Cause(c.Context())
		}
		if t.program != nil && t.program.Err() != nil {
			t.keep(t.program.Err())
		}
		if err != nil {
			return t.said(err)
		}
		order := string(queue)
		if order == "" {
			order = "-"
		}
		if failed == nil {
			table.Add(order, o.workloads, "ok")
			continue
		}
		if t.first != nil {
			failed.Why = strings.Replace(failed.Why, schedtest.PolicyFailed, t.first.Error(), 1)
		}
		table.Add(order, nil, "FAILED: "+failed.Why)
		if err := render(c, o.settings.Format, table, stepsOf(order, failed)); err != nil {
			return err
		}
		why, _, _ := strings.Cut(failed.Why, "\n")
		return brokenRuleError{fmt.Errorf("%s breaks a rule (queue %s, seed %d): %s", o.sched, order, o.seed, why)}
	}
	return render(c, o.settings.Format, table)
}

// said adds to the error of a stop what had been found by then.
func (t *tested) said(err error) error {
	if t.first == nil {
		return err
	}
	return fmt.Errorf("%w; by then: %w", err, t.first)
}

func stepsOf(queue string, f *schedtest.Failure) *report.Table {
	t := &report.Table{Title: "the smallest workload found on which it fails, queue " + queue,
		Columns: []report.Column{{Name: "step"}, {Name: "call"}, {Name: "drawn"}, {Name: "decided"}}}
	for i, s := range f.Steps {
		t.Add(i, s.Do, s.With, s.Decided)
	}
	return t
}

// queuesOf are the orders of the queue that a scheduler knows; "" if it has no such parameter.
func queuesOf(info policies.Info) []engine.Order {
	for _, p := range info.Params {
		if p.Name == "queue" {
			return []engine.Order{engine.FIFO, engine.FirstFit, engine.LargestFirst, engine.PriorityFIFO, engine.PriorityFirstFit}
		}
	}
	return []engine.Order{""}
}

// tested is the scheduler that is checked.
type tested struct {
	ctx     context.Context
	text    string
	subject schedtest.Subject
	rules   schedtest.Rules
	program *external.Policy // nil unless a program decides
	first   error            // with which the program failed

	shown func() // that another workload begins
	line  display.Line
	done  int
	since time.Time
	what  string
}

// prepare starts the program that decides, if there is one, to learn what it promises.
func (t *tested) prepare() error {
	s, err := policies.Parse(t.text, 1)
	if err != nil {
		return err
	}
	t.subject = schedtest.Registered(s.Info)
	t.rules = schedtest.Promises[s.Name]
	if s.External {
		if s, err = harness.Pinned(s); err != nil {
			return refusal{err}
		}
		if t.program, err = external.Start(*s.Program); err != nil {
			return err
		}
		p := t.program.Promises()
		t.rules = schedtest.Rules{MemoryHard: p.MemoryHard, OneJobPerDevice: p.OneJobPerDevice, Selective: !p.PlacesWhatFits}
		t.subject.Settle = t.settle
	}
	settle := t.subject.Settle
	t.subject.Settle = func(parameters string, devices int) (policies.Scheduler, error) {
		if t.ctx.Err() != nil {
			return policies.Scheduler{}, context.Cause(t.ctx)
		}
		t.shown()
		return settle(parameters, devices)
	}
	return nil
}

// settle makes the scheduler of the program, and starts the program again if it has failed: what
// makes a workload small tries many that fail.
func (t *tested) settle(parameters string, devices int) (policies.Scheduler, error) {
	s, err := policies.Parse(policies.With(t.text, parameters), devices)
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
	s.Policy = t.program
	return s, nil
}

// keep keeps the first error of the program.
func (t *tested) keep(err error) {
	if t.first == nil {
		t.first = err
	}
}

func (t *tested) property(queue engine.Order) func(*rapid.T) {
	if bound, preempts := schedtest.Bounds[t.subject.Info.Name]; preempts {
		return t.subject.Preempting(queue, bound)
	}
	return t.subject.Workload(queue, t.rules)
}

// begin shows on a terminal how far the check is. Elsewhere end says what was done, if it took long.
func (t *tested) begin(c *cobra.Command, queue engine.Order, workloads int) {
	t.line = display.NewLine(c.ErrOrStderr())
	t.done, t.since, t.what = 0, time.Now(), strings.TrimSpace(t.text+" "+string(queue))
	last := t.since
	t.shown = func() {
		t.done++
		if t.line.Animated && time.Since(last) > 200*time.Millisecond {
			last = time.Now()
			how := strconv.Itoa(t.done) + " of " + strconv.Itoa(workloads) + " workloads"
			if t.done > workloads {
				how = "it failed; looking for a smaller workload on which it fails"
			}
			t.line.Show(t.what + ": " + how)
		}
	}
}

func (t *tested) end(c *cobra.Command) {
	t.line.Clear()
	if took := time.Since(t.since); !t.line.Animated && took > time.Second {
		sayTo(c)("%s: %d workloads in %s", t.what, t.done, report.Human(took.Seconds(), report.Seconds))
	}
}

func (t *tested) close() error {
	if t.program == nil {
		return nil
	}
	return t.program.Close()
}
