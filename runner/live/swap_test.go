package live

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers"
)

// pool is an area of numbered pieces.
type pool struct {
	mu   sync.Mutex
	all  int
	free []int
}

func newPool(n int) *pool {
	p := &pool{all: n}
	for i := range n {
		p.free = append(p.free, i)
	}
	return p
}

func (p *pool) Piece() int64 { return piece }

func (p *pool) Take(n int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = min(n, len(p.free))
	out := slices.Clone(p.free[:n])
	p.free = p.free[n:]
	return out
}

func (p *pool) TakeSpare(n int) []int {
	return p.Take(min(n, max(0, len(p.free)-p.all/2)))
}

func (p *pool) Give(pieces []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, pieces...)
}

// takerProcess is a process that keeps what it gets.
type takerProcess struct {
	given    chan int // how many pieces an answer brought
	offered  []int
	recalled chan struct{}
	gone     bool
}

func newTakerProcess() *takerProcess {
	return &takerProcess{given: make(chan int, 10), recalled: make(chan struct{}, 10)}
}

var errProcessGone = errors.New("gone")

// takers are processes by their serial.
type takers []*takerProcess

func (t takers) of(p schedulers.Process) (*takerProcess, error) {
	if t[p.Serial].gone {
		return nil, errProcessGone
	}
	return t[p.Serial], nil
}

func (t takers) GiveSwap(p schedulers.Process, files ...int) error {
	to, err := t.of(p)
	if err == nil {
		to.given <- len(files)
	}
	return err
}

func (t takers) OfferSwap(p schedulers.Process, files ...int) error {
	to, err := t.of(p)
	if err == nil {
		to.offered = append(to.offered, files...)
	}
	return err
}

func (t takers) RecallSwap(p schedulers.Process) error {
	to, err := t.of(p)
	if err == nil {
		to.recalled <- struct{}{}
	}
	return err
}

// newTakers has as many processes as there are names for.
func newTakers(area pieces, n int) (s *swapSpace, all takers) {
	s = newSwapSpace(area)
	for range n {
		all = append(all, newTakerProcess())
	}
	s.server = all
	return s, all
}

func serial(n int) schedulers.Process { return schedulers.Process{Serial: n} }

// wantGiven: the process has an answer with so many pieces, now or, for one that had to wait, soon.
func (p *takerProcess) wantGiven(t *testing.T, n int) {
	t.Helper()
	select {
	case got := <-p.given:
		if got != n {
			t.Fatalf("given %d pieces; want %d", got, n)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no answer; want %d pieces", n)
	}
}

func (p *takerProcess) wantWaits(t *testing.T) {
	t.Helper()
	if len(p.given) > 0 {
		t.Fatalf("given %d pieces; want it to wait", <-p.given)
	}
}

const piece = swaparea.PieceBytes

// What was offered to others and is not used is had by who asks for it, when nothing else is left.
func TestOffersAreRecalled(t *testing.T) {
	area := newPool(32)
	s, all := newTakers(area, 3)
	a, b, c := all[0], all[1], all[2]
	for range 3 {
		s.Active(serial(0), 12*piece-1)
	}
	s.Active(serial(1), 100*piece) // half stays free
	if len(a.offered) != 12 || len(b.offered) != 4 {
		t.Fatalf("offered %d and %d pieces; want 12 and 4", len(a.offered), len(b.offered))
	}
	s.More(serial(2), 20*piece)
	c.wantGiven(t, 16)
	if len(a.recalled)+len(b.recalled) > 0 {
		t.Error("pieces are recalled while others are free")
	}
	s.More(serial(2), 20*piece)
	c.wantWaits(t)
	if len(a.recalled) != 1 || len(b.recalled) != 1 {
		t.Fatalf("recalled %d and %d times; want once each", len(a.recalled), len(b.recalled))
	}
	s.Active(serial(0), 100*piece)
	s.Returned(serial(1), 0)
	c.wantWaits(t)
	s.Returned(serial(0), 9*piece)
	c.wantGiven(t, 9)
	if len(a.offered) != 12 {
		t.Error("a process is offered pieces that is to give some back")
	}
	s.More(serial(2), piece)
	c.wantGiven(t, 0) // a and b have used what they have
	s.Ended(serial(0))
	s.Ended(serial(2))
	s.Active(serial(1), 8*piece)
	if len(b.offered) != 8 || len(area.free) != 24 {
		t.Errorf("%d pieces are offered, and %d free; want 8 and 24", len(b.offered), len(area.free))
	}
	s.Ended(serial(1))
	if len(area.free) != 32 || len(s.has) != 0 {
		t.Errorf("%d pieces came back, of 32; %d processes are left", len(area.free), len(s.has))
	}
}

// Who asks waits for no process that is stopped, has lost its connection, has ended, or asks itself.
func TestNobodyWaitsForOffersLong(t *testing.T) {
	for name, test := range map[string]struct {
		act  func(s *swapSpace)
		want int
	}{
		"stopped": {func(*swapSpace) {}, 0},
		"lost":    {func(s *swapSpace) { s.Disconnected(serial(0)) }, 0},
		"ended":   {func(s *swapSpace) { s.Ended(serial(0)) }, 8},
		"asks":    {func(s *swapSpace) { s.More(serial(0), piece) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			area := newPool(16)
			s, all := newTakers(area, 2)
			has, asks := all[0], all[1]
			s.Active(serial(0), 8*piece)
			s.More(serial(1), 16*piece)
			asks.wantGiven(t, 8)
			s.More(serial(1), 16*piece)
			asks.wantWaits(t)
			has.gone = name == "lost" || name == "ended"
			test.act(s)
			asks.wantGiven(t, test.want)
			if name == "stopped" { // it answers when nobody waits any more
				s.More(serial(1), piece)
				asks.wantGiven(t, 0)
				s.Returned(serial(0), 8*piece)
				s.More(serial(1), piece)
				asks.wantGiven(t, 1)
			}
			s.Ended(serial(0))
			s.Ended(serial(1))
			if len(area.free) != 16 {
				t.Errorf("%d pieces came back, of 16", len(area.free))
			}
		})
	}
}

// Who says that it needs more than any number of pieces holds gets what there is.
func TestAnyNumberOfBytesIsAskedFor(t *testing.T) {
	area := newPool(4)
	s, all := newTakers(area, 1)
	s.Active(serial(0), math.MaxInt64)
	if len(all[0].offered) != 2 {
		t.Errorf("%d pieces are offered, want 2 of 4", len(all[0].offered))
	}
	s.More(serial(0), math.MaxInt64)
	all[0].wantGiven(t, 2)
}

// Who has ended while it waited gets nothing, and keeps nobody waiting.
func TestWaitingForOffersEnds(t *testing.T) {
	area := newPool(16)
	s, all := newTakers(area, 3)
	first, second := all[1], all[2]
	s.Active(serial(0), 8*piece)
	s.More(serial(1), 8*piece)
	first.wantGiven(t, 8)
	s.More(serial(1), 4*piece)
	s.More(serial(2), 4*piece)
	first.gone = true
	s.Ended(serial(1))
	second.wantGiven(t, 4)
	s.Returned(serial(0), 8*piece)
	if len(area.free) != 12 {
		t.Errorf("%d pieces are free; want 12", len(area.free))
	}
}
