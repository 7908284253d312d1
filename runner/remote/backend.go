// Package remote is the backend of a cluster of real nodes. Each node is a process of caserun on its own machine, or on a part of this
// one, and hears from the head over its standard input and output (package member).
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// Backend is a cluster of real nodes.
type Backend struct {
	options harness.Options
	say     harness.Say
	conns   []*conn
	in      chan received // what nodes say
	epoch   time.Time     // of the head's clock
}

var _ harness.Backend = (*Backend)(nil)

// conn is the connection to a node.
type conn struct {
	place
	index  int
	title  string
	to     *Writer
	proc   *child.Process // nil: it is not a process (tests)
	opened Opened
	lost   string        // why it is; "": it is not
	heard  time.Duration // when it said something last, by the head's clock
	clock  clock
	errs   *head // what its process says on stderr
}

// received is a line of a node.
type received struct {
	from *conn
	at   time.Duration // by the head's clock
	said FromNode
	err  error // it says nothing more
}

// silence is how long a node may say nothing.
const silence = 10 * time.Second

// answerLimit is how long a node may take for what was asked of it, such as to start MPS.
const answerLimit = 2 * time.Minute

// endLimit is how long a node's process may take to end after its input has.
const endLimit = 15 * time.Second

// Open starts the nodes that the options name. Close must follow a success.
func Open(ctx context.Context, o harness.Options, say harness.Say) (*Backend, error) {
	places, err := find(ctx, o.Node)
	if err != nil {
		return nil, harness.Refuse(err)
	}
	b := newBackend(o, say)
	say("starting %s", size.Count(len(places), "node"))
	for _, p := range places {
		if err := b.start(p); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b.opened(ctx)
}

func newBackend(o harness.Options, say harness.Say) *Backend {
	return &Backend{options: o, say: say, in: make(chan received, 1024), epoch: time.Now()}
}

// opened returns the backend once all nodes are open.
func (b *Backend) opened(ctx context.Context) (*Backend, error) {
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// start starts a node's process.
func (b *Backend) start(p place) error {
	cmd, err := p.command()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	out, w, err := os.Pipe() // not StdoutPipe, which Wait closes before all is read
	if err != nil {
		return fmt.Errorf("start a node: %w", err)
	}
	said := new(head)
	cmd.Stdout, cmd.Stderr = w, said
	proc, err := child.Start(cmd, 0)
	_ = w.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("start node %s: %w", p.title(len(b.conns)), err), out.Close())
	}
	b.connect(p, in, out, proc, said)
	return nil
}

// connect adds a node that hears from in and is heard from out.
func (b *Backend) connect(p place, in io.WriteCloser, out io.ReadCloser, proc *child.Process, said *head) {
	c := &conn{place: p, index: len(b.conns), title: "node " + p.title(len(b.conns)), to: NewWriter(in), proc: proc, errs: said}
	b.conns = append(b.conns, c)
	go func() {
		defer out.Close()
		b.read(c, NewReader[FromNode](out))
	}()
}

// read passes on what a node says, until it says nothing more.
func (b *Backend) read(c *conn, from *Reader[FromNode]) {
	for {
		said, err := from.Next()
		b.in <- received{c, time.Since(b.epoch), said, err}
		if err != nil {
			return
		}
	}
}

// open opens all nodes.
func (b *Backend) open(ctx context.Context) error {
	_, revision := harness.Version()
	for _, c := range b.conns {
		o := b.options
		o.Node, o.Devices, o.RetryLost = cmp.Or(c.node, "local"), c.devices, false // lost nodes are the head's
		c.to.Say(ToNode{Open: &Opening{Protocol: Protocol, Version: revision, Options: o}})
	}
	err := b.gather(ctx, "be opened", func(c *conn, said FromNode) bool {
		if said.Opened != nil {
			c.opened = *said.Opened
		}
		return said.Opened != nil
	})
	if err != nil {
		return err
	}
	return b.distinct()
}

// distinct refuses parts of this machine that are the same GPUs.
func (b *Backend) distinct() error {
	seen := map[string]*conn{}
	for _, c := range b.conns {
		if other := seen[c.opened.Machine]; other != nil {
			return harness.Refuse(fmt.Errorf("%s and %s have the same GPUs: name each GPU once", other.title, c.title))
		}
		if c.host == "" && c.opened.Mode == results.Live {
			seen[c.opened.Machine] = c
		}
	}
	return nil
}

// gather waits until each node that is not lost has said what done takes. A node that cannot, or is lost, is an error.
func (b *Backend) gather(ctx context.Context, what string, done func(c *conn, said FromNode) bool) error {
	waits := map[*conn]bool{}
	for _, c := range b.conns {
		if c.lost == "" {
			waits[c] = true
		}
	}
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	var errs []error
	for len(waits) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			for c := range waits {
				errs = append(errs, fmt.Errorf("%s did not answer within %v when it was to %s%s", c.title, answerLimit, what, c.errs.text()))
			}
			return errors.Join(errs...)
		case r := <-b.in:
			c := r.from
			switch {
			case c.lost != "": // what it says now comes too late
			case r.err != nil:
				c.lose(r.err)
				if waits[c] {
					errs = append(errs, fmt.Errorf("%s was to %s: %s", c.title, what, c.lost))
				}
				delete(waits, c)
			case r.said.Say != "":
				b.say("%s: %s", c.title, r.said.Say)
			case r.said.Failed != nil:
				errs = append(errs, r.said.Failed.of(c))
				delete(waits, c)
			case done(c, r.said):
				delete(waits, c)
			}
		}
	}
	return errors.Join(errs...)
}

func (f *Failure) of(c *conn) error {
	err := fmt.Errorf("%s: %s", c.title, f.Why)
	if f.Request {
		return harness.Refuse(err)
	}
	return err
}

// lose notes that a node says nothing more, and has its process end.
func (c *conn) lose(err error) {
	if c.lost != "" {
		return
	}
	if c.lost = err.Error(); errors.Is(err, io.EOF) {
		c.lost = "its process ended" + c.status() + c.errs.text()
	}
	go func() { _ = c.end() }()
}

// status is how the node's process ended, for messages; "": it has not, or is none.
func (c *conn) status() string {
	if c.proc == nil {
		return ""
	}
	select {
	case <-c.proc.Done():
		if err := c.proc.Err(); err != nil {
			return " (" + err.Error() + ")"
		}
	case <-time.After(time.Second):
	}
	return ""
}

// end has the node's process end: its input ends, and if that does not help, it is killed.
func (c *conn) end() error {
	c.to.Close()
	if c.proc == nil {
		return nil
	}
	select {
	case <-c.proc.Done():
		return nil
	case <-time.After(endLimit):
		return c.proc.Kill()
	}
}

// Close ends the nodes.
func (b *Backend) Close() error {
	var all sync.WaitGroup
	errs := make([]error, len(b.conns))
	for i, c := range b.conns {
		all.Go(func() { errs[i] = c.end() })
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		all.Wait()
	}()
	for {
		select {
		case r := <-b.in: // nobody must be kept from saying it
			if r.said.Say != "" {
				b.say("%s: %s", r.from.title, r.said.Say)
			}
		case <-over:
			return errors.Join(errs...)
		}
	}
}

func (b *Backend) Mode() results.Mode { return b.conns[0].opened.Mode }

func (b *Backend) Options() harness.Options { return b.options }

func (*Backend) Ignored() []string { return nil }

// Size is that of the node with most devices, and the devices of all.
func (b *Backend) Size() (devices, threads, all int, err error) {
	for _, c := range b.conns {
		all += c.opened.Devices
		if c.opened.Devices > devices {
			devices, threads = c.opened.Devices, c.opened.Threads
		}
	}
	return devices, threads, all, nil
}

// Machine names all nodes.
func (b *Backend) Machine() (string, error) {
	var names []string
	for _, c := range b.conns {
		names = append(names, c.opened.Machine)
	}
	return strings.Join(names, " "), nil
}

// History has what is known on the GPUs of any node.
func (b *Backend) History(profiles.Set) (history.Node, error) {
	all := history.Node{Mode: b.Mode(), Suite: b.options.Suite, FreeBytes: b.conns[0].opened.FreeBytes}
	for _, c := range b.conns {
		for _, gpu := range c.opened.GPUs {
			if !slices.Contains(all.GPUs, gpu) {
				all.GPUs = append(all.GPUs, gpu)
			}
		}
		all.FreeBytes = min(all.FreeBytes, c.opened.FreeBytes)
	}
	return all, nil
}

// CheckMix refuses a mix whose programs are not here. Those of the nodes are expected to be the same.
func (b *Backend) CheckMix(m mixes.Mix, probe results.Probe, _ profiles.Set) error {
	if b.Mode() != results.Live {
		return nil
	}
	_, _, err := live.Resolve(b.options, probe, m)
	return err
}

// CheckScheduler refuses a scheduler that has no policy for the head, or one that does what real nodes cannot do yet.
func (b *Backend) CheckScheduler(s policies.Scheduler) error {
	policy, isPolicy := s.Head.(cluster.Policy)
	var why string
	switch {
	case !isPolicy:
		why = fmt.Sprintf("%s is a cluster: write also the policy by which its head gives jobs to nodes, as in cluster-rr/%s", b.options.Node, s.Name)
	case policy.Literal():
		why = "the printed listings are for simulated clusters: leave literal out"
	case b.options.Slow != "":
		return harness.Refuse(fmt.Errorf("--slow %s: nodes of a cluster are not slowed: leave it out", b.options.Slow))
	case b.options.Failures != "":
		return harness.Refuse(fmt.Errorf("--sim-failures %s: these GPUs are real: leave it out, or give a simulated node", b.options.Failures))
	default:
		return nil
	}
	return harness.Refuse(fmt.Errorf("--sched %s: %s", s.Name, why))
}

// head is the begin of what is written to it.
type head struct {
	mu    sync.Mutex
	first []byte
}

const mostOfHead = 500

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = append(h.first, p[:min(len(p), mostOfHead-len(h.first))]...)
	return len(p), nil
}

// text is what to add to a message: the first lines.
func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := strings.SplitN(strings.TrimSpace(strings.ToValidUTF8(string(h.first), "")), "\n", 3)
	if lines[0] == "" {
		return ""
	}
	return ": " + strings.Join(lines[:min(len(lines), 2)], "; ")
}
