package live

import (
	"slices"
	"sync"
	"time"
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
	area pieces

	mu     sync.Mutex
	has    map[swapTaker]*share
	asking []swapTaker // that wait for pieces, the first first
}

// pieces is the part of swaparea.Area that is needed here.
type pieces interface {
	Piece() int64 // bytes of each
	Take(n int) []int
	TakeSpare(n int) []int
	Give(pieces []int)
}

// swapTaker is the part of probe.Client that is needed here.
type swapTaker interface {
	GiveSwap(bytes, offset uint64, files ...int) error
	OfferSwap(files ...int) error
	RecallSwap() error
}

// share is what a process has.
type share struct {
	kept     []int     // pieces, for good
	offered  []int     // pieces that it can be asked for, in the order of the offers
	recalled time.Time // when it was asked for them; zero: it is not asked
	wants    int       // pieces; not 0: it is asking
}

func newSwapSpace(area pieces) *swapSpace {
	return &swapSpace{area: area, has: map[swapTaker]*share{}}
}

// of, with mu held, is what the process has.
func (s *swapSpace) of(c swapTaker) *share {
	h := s.has[c]
	if h == nil {
		h = &share{}
		s.has[c] = h
	}
	return h
}

// offer offers host memory to a process whose memory may be taken soon, because a request waits. For a device to reach
// host memory for the first time takes longer than to copy as much. So a process that is ready answers its first
// revocation sooner. It is offered no more than it has on the device (bytes), and no more than half of the swap area
// is given in this way.
func (s *swapSpace) offer(c swapTaker, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.has[c]
	if h == nil {
		h = &share{}
	}
	piece := s.area.Piece()
	lacks := (bytes+piece-1)/piece - int64(len(h.kept)+len(h.offered))
	if lacks <= 0 || !h.recalled.IsZero() {
		return
	}
	files := s.area.TakeSpare(int(min(lacks, offered)))
	if len(files) == 0 {
		return
	}
	if err := c.OfferSwap(files...); err != nil {
		s.area.Give(files) // it asks when it needs them
		return
	}
	h.offered = append(h.offered, files...)
	s.has[c] = h
}

// more gives the process pieces for so many bytes, or as many as there are. If none are left, it waits for those that others have not
// used.
func (s *swapSpace) more(c swapTaker, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	piece := uint64(s.area.Piece())
	s.of(c).wants = int(min((bytes+piece-1)/piece, maxPieces))
	s.asking = append(s.asking, c)
	s.answer()
}

// answer, with mu held, answers who asks, until somebody has to wait.
func (s *swapSpace) answer() {
	for len(s.asking) > 0 {
		c := s.asking[0]
		files := s.area.Take(s.of(c).wants)
		if len(files) == 0 && s.recall(c) {
			return
		}
		s.asking = s.asking[1:]
		s.give(c, files)
	}
}

func (s *swapSpace) give(c swapTaker, files []int) {
	h := s.of(c)
	h.wants = 0
	if err := c.GiveSwap(uint64(len(files))*uint64(s.area.Piece()), 0, files...); err != nil {
		s.area.Give(files) // the process is gone, or the answer did not go out
		if len(files) > 0 {
			_ = c.GiveSwap(0, 0) // fails where the process is gone
		}
		return
	}
	h.kept = append(h.kept, files...)
}

// recall asks all others but `asks` for what they were offered, and reports whether some may still come. Who asks for pieces itself
// has used what it was offered.
func (s *swapSpace) recall(asks swapTaker) (pending bool) {
	for c, h := range s.has {
		if c == asks || h.wants > 0 || len(h.offered) == 0 {
			continue
		}
		if h.recalled.IsZero() {
			if c.RecallSwap() != nil { // it is gone
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

// returned takes back the last pieces that the process was offered, for it has not used them.
func (s *swapSpace) returned(c swapTaker, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.of(c)
	used := len(h.offered) - int(min(bytes/uint64(s.area.Piece()), uint64(len(h.offered))))
	s.area.Give(slices.Clone(h.offered[used:]))
	h.kept = append(h.kept, h.offered[:used]...)
	h.offered, h.recalled = nil, time.Time{}
	s.answer()
}

// disconnected withdraws what the process was asked for, and what it asks for.
func (s *swapSpace) disconnected(c swapTaker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.has[c]; h != nil {
		s.withdraw(c, h)
		s.answer()
	}
}

func (s *swapSpace) withdraw(c swapTaker, h *share) {
	h.wants, h.recalled = 0, time.Time{}
	s.asking = slices.DeleteFunc(s.asking, func(of swapTaker) bool { return of == c })
}

// ended takes back all that a process had.
func (s *swapSpace) ended(c swapTaker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.has[c]; h != nil {
		s.withdraw(c, h)
		delete(s.has, c)
		s.area.Give(slices.Concat(h.kept, h.offered))
		s.answer()
	}
}
