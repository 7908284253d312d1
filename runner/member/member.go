// Package member is one node of a cluster: it does what the head says on its standard input (package remote), and says there what happens.
// When its input ends, it stops its jobs and gives its GPUs back.
package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/control"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/remote"
	"github.com/caserun/caserun/runner/slurmstep"
)

// open is a writer that stays open.
type open struct{ io.Writer }

func (open) Close() error { return nil }

// node is this process.
type node struct {
	to       *remote.Writer
	epoch    time.Time // of its clock
	options  harness.Options
	session  nodes.Session
	backend  harness.Backend
	prepared harness.Node            // prepared for a batch; nil: it is not
	desk     *slurmstep.Desk         // of the batch; nil: its ranks take part in no steps of Slurm
	given    chan harness.Given      // what the batch gets
	cancel   context.CancelCauseFunc // of the batch
	ended    chan struct{}           // is closed when the batch has
	run      atomic.Int64            // of the batch

	mu      sync.Mutex
	numbers []int // of the jobs in the mix, by their numbers for the head
	local   []int // numbers for the head of the jobs that the batch has, by its own numbers
}

// Main is what caserun does if its arguments name no command of users, but what it starts itself: a node, who attends for a rank there, or the
// guard of a node's jobs. false: they do not.
func Main(ctx context.Context, args []string, in io.Reader, out io.Writer) (bool, error) {
	switch {
	case len(args) > 0 && args[0] == slurmstep.Command:
		return true, slurmstep.Attend(args[1:])
	case len(args) != 1:
		return false, nil
	case args[0] == live.GuardCommand:
		return true, live.Guard(in)
	case args[0] == remote.Command:
		// These reach the head, too, which knows what to do. To ignore them would have jobs ignore them.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
		return true, Serve(ctx, in, out)
	}
	return false, nil
}

// Serve serves until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, gone := context.WithCancelCause(ctx)
	n := &node{to: remote.NewWriter(open{out}), epoch: time.Now(), ended: make(chan struct{})}
	said, wrong := make(chan remote.ToNode, 1<<16), make(chan error, 1)
	go func() {
		defer close(said)
		wrong <- n.read(remote.NewReader[remote.ToNode](in), said)
		gone(errors.New("the head of the cluster says nothing more"))
	}()
	for s := range said {
		if err := n.do(ctx, s); err != nil {
			request := (*harness.RequestError)(nil)
			n.to.Say(remote.FromNode{Failed: &remote.Failure{Why: err.Error(), Request: errors.As(err, &request)}})
		}
	}
	errs := []error{<-wrong}
	if n.cancel != nil {
		<-n.ended
	}
	if n.prepared != nil {
		errs = append(errs, n.prepared.Close(new(results.Run))...)
	}
	errs = append(errs, n.leavesDesk())
	if n.backend != nil {
		errs = append(errs, n.backend.Close(), n.session.Close())
	}
	n.to.Close()
	<-n.to.Done()
	return errors.Join(errs...)
}

// read passes on what the head says, and tells it the time at once.
func (n *node) read(from *remote.Reader[remote.ToNode], to chan<- remote.ToNode) error {
	for {
		said, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the head of the cluster: %w", err)
		case said.Ping != nil:
			n.to.Say(remote.FromNode{Pong: &remote.Pong{Ping: *said.Ping, Ns: int64(time.Since(n.epoch))}})
		default:
			to <- said
		}
	}
}

// do does what the head says.
func (n *node) do(ctx context.Context, said remote.ToNode) error {
	switch {
	case said.Open != nil:
		return n.opens(ctx, *said.Open)
	case said.Prepare != nil:
		return n.prepares(ctx, *said.Prepare)
	case said.Begin != nil:
		n.begins(ctx, *said.Begin)
	case said.Given != nil:
		n.gives(*said.Given, said.Number)
	case said.Limit != nil:
		said.Limit.Job = n.own(said.Limit.Job)
		n.post(*said.Limit)
	case said.Withdraw != nil:
		said.Withdraw.Job = n.own(said.Withdraw.Job)
		n.post(*said.Withdraw)
	case said.Alone:
		n.post(runner.OnlyCompanions{})
	case said.Cancel != "":
		n.cancel(errors.New(said.Cancel))
	case said.Control != nil:
		go n.control(ctx, *said.Control)
	case said.NoMore:
		close(n.given)
		n.given = nil
	case said.Close:
		n.closes()
	}
	return nil
}

func (n *node) say(format string, args ...any) {
	n.to.Say(remote.FromNode{Say: fmt.Sprintf(format, args...)})
}

// opens opens the node.
func (n *node) opens(ctx context.Context, o remote.Opening) (err error) {
	if _, revision := harness.Version(); o.Protocol != remote.Protocol || o.Version != revision {
		return harness.Refuse(fmt.Errorf("its caserun is of revision %s, and the head's of %s: install the same on all nodes", revision, o.Version))
	}
	if n.backend, err = n.session.Open(ctx, o.Options, n.say); err != nil {
		return err
	}
	n.options = n.backend.Options()
	opened := remote.Opened{Mode: n.backend.Mode()}
	if opened.Devices, opened.Threads, _, err = n.backend.Size(); err != nil {
		return err
	}
	if opened.Machine, err = n.backend.Machine(); err != nil {
		return err
	}
	known, err := n.backend.History(profiles.Catalog())
	opened.GPUs, opened.FreeBytes = known.GPUs, known.FreeBytes
	n.to.Say(remote.FromNode{Opened: &opened})
	return err
}

// prepares prepares the node for a batch.
func (n *node) prepares(ctx context.Context, p remote.Preparing) error {
	known, err := n.options.KnownProfiles(ctx)
	if err != nil {
		return err
	}
	p.Options = n.options
	n.given, n.numbers, n.local = make(chan harness.Given), nil, nil
	r := harness.Request{Configuration: p.Configuration, Mix: mixes.Mix{Name: p.Mix}, Given: n.given, Profiles: known, Say: n.say}
	if n.backend.Mode() == results.Simulated {
		r.Know = func(ctx context.Context, m *mixes.Mix, known profiles.Set) (profiles.Set, error) {
			return nodes.Know(ctx, n.options, m, known, n.say)
		}
	}
	if p.Desk != "" {
		if n.desk, err = slurmstep.Open(p.Desk, func(job int) { n.to.Say(remote.FromNode{Step: &job}) }); err != nil {
			return err
		}
	}
	member := harness.Batch{Request: r, Started: p.Started, Desk: n.desk, JobNumber: n.number, DeviceNumber: func(device int) int { return p.FirstDevice + device }}
	prepared, err := harness.OpenMember(ctx, n.backend, member, recorder{n})
	if err != nil {
		return err
	}
	n.prepared = prepared
	var run results.Run
	prepared.Describe(&run)
	n.to.Say(remote.FromNode{Prepared: &remote.Prepared{Devices: prepared.Devices(), Run: run}})
	return nil
}

// begins begins the batch.
func (n *node) begins(ctx context.Context, b remote.Beginning) {
	ctx, n.cancel = context.WithCancelCause(ctx)
	n.run.Store(b.Run)
	go func() {
		defer close(n.ended)
		_, err := n.prepared.Execute(ctx, b.Run, n.epoch.Add(time.Duration(b.Zero)))
		ended := remote.Failure{}
		if err != nil {
			ended.Why = err.Error()
		}
		n.to.Say(remote.FromNode{Ended: &ended})
	}()
}

// control does what the user asks of a device, by the socket of the batch here.
func (n *node) control(ctx context.Context, c remote.Controlling) {
	done := remote.Controlled{ID: c.ID}
	state, err := control.Ask(ctx, n.run.Load(), os.Getpid(), c.Do, c.Device)
	if done.State = state; err != nil {
		done.Why = err.Error()
	}
	n.to.Say(remote.FromNode{Controlled: &done})
}

// gives gives the batch a job.
func (n *node) gives(g runner.Given, number int) {
	n.mu.Lock()
	n.numbers = append(n.numbers, number)
	job := len(n.numbers) - 1
	n.local = append(n.local, job)
	n.mu.Unlock()
	n.offer(harness.Given{Event: g, Answer: func(_ int, err error) {
		if err == nil {
			return
		}
		n.mu.Lock()
		n.local = n.local[:len(n.local)-1] // the next job gets its number in the batch
		n.mu.Unlock()
		n.to.Say(remote.FromNode{Declined: &remote.Declined{Job: job, Why: strings.TrimPrefix(err.Error(), runner.Title(0, g.Job.Name)+": ")}})
	}})
}

// post has an event happen in the batch. One that comes too late does nothing.
func (n *node) post(e runner.Event) { n.offer(harness.Given{Event: e}) }

// offer gives the batch something, and waits until the batch has it, or has ended.
func (n *node) offer(g harness.Given) {
	answer, answered := g.Answer, make(chan struct{})
	g.Answer = func(job int, err error) {
		if answer != nil {
			answer(job, err)
		}
		close(answered)
	}
	select {
	case n.given <- g:
	case <-n.ended:
		return
	}
	select {
	case <-answered:
	case <-n.ended:
	}
}

// closes gives the node back.
func (n *node) closes() {
	closed := remote.Closed{}
	if n.cancel != nil {
		<-n.ended
	}
	if n.prepared != nil {
		for _, err := range n.prepared.Close(&closed.Run) {
			if err != nil {
				closed.Problems = append(closed.Problems, err.Error())
			}
		}
		n.prepared = nil
	}
	if err := n.leavesDesk(); err != nil {
		closed.Problems = append(closed.Problems, err.Error())
	}
	n.to.Say(remote.FromNode{Closed: &closed})
}

// leavesDesk has the steps of the batch end.
func (n *node) leavesDesk() error {
	if n.desk == nil {
		return nil
	}
	desk := n.desk
	n.desk = nil
	return desk.Close()
}

// number is the number of a job in the mix, by that of the batch here.
func (n *node) number(job int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.numbers[n.local[job]]
}

// forHead is the number of a job for the head, by that of the batch here.
func (n *node) forHead(job int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.local[job]
}

// own is the number of a job in the batch here, by that for the head; -1: the batch does not have it.
func (n *node) own(job int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for own, number := range n.local {
		if number == job {
			return own
		}
	}
	return -1
}
