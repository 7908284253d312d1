package probe

import (
	"testing"

	"github.com/caserun/caserun/runner/probe/wire"
)

// What a process said before it ended is heard before Settle returns, although
// nobody had accepted its connection yet; a process that lives is not waited for.
func TestSettleHearsTheDead(t *testing.T) {
	s, r, _ := start(t)
	alive := greeted(t, s, 99)
	alive.send(frame(&wire.OOM{Bytes: 1}))
	r.next(t, "oom")
	const together = 5 // connections that wait to be accepted, in the order of their jobs
	for round := range 100 {
		var dead []*raw
		for job := range together {
			c := greeted(t, s, job)
			c.send(frame(&wire.OOM{Bytes: 7}))
			dead = append(dead, c)
		}
		for _, c := range dead {
			c.close()
		}
		s.Settle()
		heard := map[string]int{}
		for len(r.events) > 0 {
			e := *<-r.events
			heard[e.Kind]++
		}
		if heard["oom"] != together || heard["gone"] != together {
			t.Fatalf("round %d: heard %v when Settle returned, want %d of each", round, heard, together)
		}
	}
	r.none(t)
}

func TestSettleAfterClose(t *testing.T) {
	s, _, _ := start(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			s.Settle() // whether it comes before or after the close
		}
	}()
	s.Settle()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
}
