package live

import (
	"slices"
	"sync"
	"time"

	"github.com/caserun/caserun/schedulers"
)

// maxPieces is how many descriptors one frame holds.
const maxPieces = 64

// offered is how many pieces a process is offered at a time: its device reaches as many in one call.
const offered = 8

// recallTime is how long a process that asks for host memory waits for what others have not used. They answer in milliseconds,
// unless they are stopped or in the middle of a revocation.
const recallTime = 500 * time.Millisecond

// swapSpace hands out the pieces of the swap area to the processes of a run. It may be used by any goroutine.
type swapSpace struct {
	area   pieces
	server swapServer // set before the first process connects

	mu     sync.Mutex
	has    map[schedulers.Process]*share
	asking []schedulers.Process // that wait for pieces, the first first
}

// pieces is the part of swaparea.Area that is needed here.
type pieces interface {
	Piece() int64 // bytes of each
	Take(n int) []int
	TakeSpare(n int) []int
	Give(pieces []int)
}

// swapServer is the part of probe.Server that is needed here.
type swapServer interface {
	GiveSwap(p schedulers.Process, files ...int) error
	OfferSwap(p schedulers.Process, files ...int) error
	RecallSwap(p schedulers.Process) error
}

// share is what a process has.
type share struct {
	kept     []int     // pieces, for good
	offered  []int     // pieces that it can be asked for, in the order of the offers
	recalled time.Time // when it was asked for them; zero: it is not asked
	wants    int       // pieces; not 0: it is asking
}

func newSwapSpace(area pieces) *swapSpace {
	return &swapSpace{area: area, has: map[schedulers.Process]*share{}}
}

// of, with mu held, is what the process has.
func (s *swapSpace) of(p schedulers.Process) *share {
	h := s.has[p]
	if h == nil {
		h = &share{}
		s.has[p] = h
	}
	return h
}

// Active offers host memory to a process whose memory may be taken soon, because a request waits. For a device to reach
// host memory for the first time takes longer than to copy as much. So a process that is ready answers its first
// revocation sooner. It is offered no more than it has on the device (bytes), and no more than half of the swap area
// is given in this way.
func (s *swapSpace) Active(p schedulers.Process, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.has[p]
	if h == nil {
		h = &share{}
	}
	lacks := s.piecesOf(bytes) - int64(len(h.kept)+len(h.offered))
	if lacks <= 0 || !h.recalled.IsZero() {
		return
	}
	files := s.area.TakeSpare(int(min(lacks, offered)))
	if len(files) == 0 {
		return
	}
	if err := s.server.OfferSwap(p, files...); err != nil {
		s.area.Give(files) // it asks when it needs them
		return
	}
	h.offered = append(h.offered, files...)
	s.has[p] = h
}

// More gives the process pieces for so many bytes, or as many as there are. If none are left, it waits for those that others have not
// used.
func (s *swapSpace) More(p schedulers.Process, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(p).wants = int(min(s.piecesOf(bytes), maxPieces))
	s.asking = append(s.asking, p)
	s.answer()
}

// piecesOf is how many pieces hold so many bytes. A process may say any number.
func (s *swapSpace) piecesOf(bytes int64) int64 {
	piece := s.area.Piece()
	return bytes/piece + min(bytes%piece, 1)
}

// answer, with mu held, answers who asks, until somebody has to wait.
func (s *swapSpace) answer() {
	for len(s.asking) > 0 {
		p := s.asking[0]
		files := s.area.Take(s.of(p).wants)
		if len(files) == 0 && s.recall(p) {
			return
		}
		s.asking = s.asking[1:]
		s.give(p, files)
	}
}

func (s *swapSpace) give(p schedulers.Process, files []int) {
	h := s.of(p)
	h.wants = 0
	if err := s.server.GiveSwap(p, files...); err != nil {
		s.area.Give(files) // the process is gone, or the answer did not go out
		if len(files) > 0 {
			_ = s.server.GiveSwap(p) // fails where the process is gone
		}
		return
	}
	h.kept = append(h.kept, files...)
}

// recall asks all others but `asks` for what they were offered, and reports whether some may still come. Who asks for pieces itself
// has used what it was offered.
func (s *swapSpace) recall(asks schedulers.Process) (pending bool) {
	for p, h := range s.has {
		if p == asks || h.wants > 0 || len(h.offered) == 0 {
			continue
		}
		if h.recalled.IsZero() {
			if s.server.RecallSwap(p) != nil { // it is gone
				continue
			}
			h.recalled = time.Now()
			time.AfterFunc(recallTime, s.retry)
		}
		pending = pending || time.Since(h.recalled) < recallTime
	}
	return pending
}

func (s *swapSpace) retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer()
}

// Returned takes back the last pieces that the process was offered, for it has not used them.
func (s *swapSpace) Returned(p schedulers.Process, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of(p)
	used := len(h.offered) - int(min(bytes/s.area.Piece(), int64(len(h.offered))))
	s.area.Give(slices.Clone(h.offered[used:]))
	h.kept = append(h.kept, h.offered[:used]...)
	h.offered, h.recalled = nil, time.Time{}
	s.answer()
}

// Disconnected withdraws what the process was asked for, and what it asks for.
func (s *swapSpace) Disconnected(p schedulers.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.has[p]; h != nil {
		s.withdraw(p, h)
		s.answer()
	}
}

func (s *swapSpace) withdraw(p schedulers.Process, h *share) {
	h.wants, h.recalled = 0, time.Time{}
	s.asking = slices.DeleteFunc(s.asking, func(of schedulers.Process) bool { return of == p })
}

// Ended takes back all that a process had.
func (s *swapSpace) Ended(p schedulers.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.has[p]; h != nil {
		s.withdraw(p, h)
		delete(s.has, p)
		s.area.Give(slices.Concat(h.kept, h.offered))
		s.answer()
	}
}
