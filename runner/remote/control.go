package remote

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/control"
	"github.com/caserun/caserun/runner/scratch"
)

// controlLimit is how long a node may take to do what a user asks of a device.
const controlLimit = 20 * time.Second

// questions are what users ask while the batch runs, of the node that has the device.
type questions struct {
	mu   sync.Mutex
	last int
	open map[int]question
	over bool // nobody answers any more
}

type question struct {
	of     *member
	answer chan Controlled
}

// listen takes questions of users until closes is called. It takes none in tests whose nodes are not processes, because time may be virtual there.
func (h *batch) listen(run int64) (closes func() error, err error) {
	if h.members[0].conn.proc == nil {
		return func() error { return nil }, nil
	}
	dir, err := scratch.Make("run")
	if err != nil {
		return nil, err
	}
	server, err := control.Listen(dir.Path(), run, h.control)
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	return func() error {
		h.questions.end(nil, "the run has ended")
		return errors.Join(server.Close(), dir.Remove())
	}, nil
}

// control does what the user asks of a device.
func (h *batch) control(do control.Verb, device int) (runner.DeviceState, error) {
	i := slices.IndexFunc(h.members, func(m *member) bool { return device >= m.First && device < m.First+m.Devices })
	if i < 0 {
		return runner.DeviceState{}, fmt.Errorf("device %d: the run has devices 0 to %d", device, len(h.devices)-1)
	}
	m := h.members[i]
	id, answer := h.questions.ask(m)
	m.conn.to.Say(ToNode{Control: &Controlling{id, do, device - m.First}})
	select {
	case a := <-answer:
		if a.Why != "" {
			return a.State, errors.New(a.Why)
		}
		return a.State, nil
	case <-time.After(controlLimit):
		return runner.DeviceState{}, fmt.Errorf("%s has not answered for %v", m.conn.title, controlLimit)
	}
}

// ask opens a question.
func (q *questions) ask(of *member) (id int, answer <-chan Controlled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	a := question{of, make(chan Controlled, 1)}
	if q.over || of.gone {
		a.answer <- Controlled{Why: of.conn.title + " is gone"}
		return q.last, a.answer
	}
	if q.open == nil {
		q.open = map[int]question{}
	}
	q.open[q.last] = a
	return q.last, a.answer
}

// take takes an answer.
func (q *questions) take(a Controlled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if of, is := q.open[a.ID]; is {
		of.answer <- a
		delete(q.open, a.ID)
	}
}

// end answers what a node that is gone was asked; nil: all are.
func (q *questions) end(gone *member, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if gone == nil {
		q.over = true
	} else {
		gone.gone = true
	}
	for id, of := range q.open {
		if gone == nil || of.of == gone {
			of.answer <- Controlled{Why: why}
			delete(q.open, id)
		}
	}
}
