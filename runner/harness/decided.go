package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/runner/layer"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// Pinned returns a scheduler that a program decides for so that it means the program as it is now, and so for the head of a cluster.
// The file of a layer is read, and so pinned. A run's parameters, and its scheduler's name, then tell the versions of a program apart. Other schedulers stay as they are.
func Pinned(s policies.Scheduler) (policies.Scheduler, error) {
	if s.Layer != nil && s.Layer.Path != "" && s.Head == nil {
		under, err := layer.Pinned(*s.Layer, s)
		if err != nil {
			return s, err
		}
		s = s.Under(under)
	}
	if s.Program != nil {
		sum, err := digits(s.Program)
		if err != nil {
			return s, err
		}
		s = s.Pinned(sum)
	}
	if head, _ := s.Head.(cluster.Policy); head.Program() != nil {
		sum, err := digits(head.Program())
		if err != nil {
			return s, fmt.Errorf("head of the cluster: %w; if all of %s is a program for one node, write path= before it", err, head.Program().Path+"/"+s.Name[strings.LastIndex(s.Name, "/")+1:])
		}
		s = head.Pinned(sum).Over(s)
	}
	return s, nil
}

// digits name the content that a program has now, which must be that which was asked for.
func digits(p *policies.Program) (string, error) {
	if err := external.CheckFile(p.Path); err != nil {
		return "", err
	}
	sum, err := Hash(p.Path)
	if err != nil {
		return "", err
	}
	sum = sum[:policies.HashDigits]
	if want := p.SHA256; want != "" && want != sum {
		return "", fmt.Errorf("policy %s: the sha256 of its content begins with %s, and sha256=%s was asked for: bring that content back, or leave sha256 out (a sweep keeps the content that it was planned with)", p.Path, sum, want)
	}
	return sum, nil
}

// decided is a node for whose batch a program decides, or a cluster for whose head one does.
type decided struct {
	Node
	batch   *Batch
	program Decides
	rule    string
	to      Recorder
}

// Decides is a program of the user's that decides for a batch, or for a node of a cluster (runner/external).
type Decides interface {
	Answers() string
	Err() error
	Close() error
}

// OnEmptyNode is the rule by which programs that decide on a node have jobs refused.
const OnEmptyNode = "a task that must wait on the empty node is refused"

// Execute says why, too: of refused jobs the engine says only that the scheduler gives them no device.
func (d decided) Execute(ctx context.Context, run int64, arrival time.Time) ([]results.Job, error) {
	jobs, err := d.Node.Execute(ctx, run, arrival)
	refused := slices.IndexFunc(jobs, func(j results.Job) bool { return j.Outcome != nil && *j.Outcome == results.Refused })
	if err != nil || refused < 0 || d.program.Err() != nil {
		return jobs, err
	}
	d.batch.SayRefused(jobs[refused], d.program, d.rule, d.to)
	return jobs, nil
}

// SayRefused says of the first job that was refused how often the program let something wait, and by which rule it refuses jobs.
func (b *Batch) SayRefused(j results.Job, program Decides, rule string, to Recorder) {
	why := program.Answers() + "; " + rule
	b.Say("%s", why)
	to.Event(results.Event{AtS: *j.EndS, Kind: results.EventHint, Job: &j.Index, Detail: why})
}

func (d decided) Close(run *results.Run) []error {
	return append(d.Node.Close(run), d.program.Close())
}

// open prepares the node for the batch, and starts the program that decides, if there is one. If it fails at its greeting,
// the batch ends as it begins, so that the run is recorded.
func (b *Batch) open(to Recorder, node func(Batch) (Node, error)) (Node, error) {
	if head, isHead := b.Scheduler.Head.(cluster.Policy); isHead {
		return b.openHead(head, to, node)
	}
	if b.Scheduler.Program == nil {
		return node(*b)
	}
	program, err := external.Start(*b.Scheduler.Program)
	if program == nil {
		return nil, err
	}
	b.Scheduler = program.Scheduler(b.Scheduler)
	n, err := node(*b)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return decided{n, b, program, OnEmptyNode, to}, nil
}

// openHead is open of a cluster. The programs of its nodes are started with them.
func (b *Batch) openHead(head cluster.Policy, to Recorder, node func(Batch) (Node, error)) (Node, error) {
	if head.Program() == nil {
		return node(*b)
	}
	program, err := external.StartHead(*head.Program())
	if program.Policy == nil {
		return nil, err
	}
	b.Scheduler.Head = head.By(program)
	n, err := node(*b)
	if err != nil {
		return nil, errors.Join(err, program.Close())
	}
	return decided{n, b, program, "a job that must wait although nothing runs on the cluster is refused", to}, nil
}

// OnNode settles the scheduler of a node of a cluster, and its workers, and starts the program that decides there. program is nil if none
// does; else it has to be closed.
func (b *Batch) OnNode(devices, hostThreads int) (s policies.Scheduler, workers int, program *external.Policy, err error) {
	s, workers, err = b.Request.Scheduler(devices, hostThreads)
	if err != nil || s.Program == nil {
		return s, workers, nil, err
	}
	program, err = external.Start(*s.Program)
	if program == nil {
		return s, workers, nil, err
	}
	return program.Scheduler(s), workers, program, nil
}

// Decider settles a scheduler for so many devices and starts the program that decides, if there is
// one. done must be called after a success. It is for batches that are not runs.
func Decider(text string, devices int) (_ policies.Scheduler, done func() error, err error) {
	s, err := policies.ParseStored(text, devices)
	if err == nil {
		s, err = Pinned(s)
	}
	if err != nil {
		return s, nil, Refuse(err)
	}
	if s.Program == nil {
		return s, func() error { return nil }, nil
	}
	program, err := external.Start(*s.Program)
	if err != nil {
		return s, nil, err
	}
	return program.Scheduler(s), program.Close, nil
}
