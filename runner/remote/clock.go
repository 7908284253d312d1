package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
)

// pingEvery is how often each node is asked for its time. The shortest of the round trips of a second counts.
const pingEvery = time.Second / pingsPerSecond

const pingsPerSecond = 8

// clock compares the clock of a node with the head's.
type clock struct {
	set     bool          // offset and known are
	offset  time.Duration // the node's time less the head's, at the begin of the batch
	known   time.Duration // how well that is known, in both directions
	drifted time.Duration // the most that they have drifted apart since, as far as is known

	best  trip // the shortest round trip of a second
	trips int  // of it
}

// trip is a ping and its answer.
type trip struct{ offset, took time.Duration }

// take takes an answer that came at a time.
func (c *clock) take(p Pong, at time.Duration) {
	took := at - time.Duration(p.Ping)
	if c.trips == 0 || took < c.best.took {
		c.best = trip{time.Duration(p.Ns) - time.Duration(p.Ping) - took/2, took}
	}
	if c.trips++; c.trips < pingsPerSecond {
		return
	}
	c.trips = 0
	if !c.set {
		c.set, c.offset, c.known = true, c.best.offset, c.best.took/2
		return
	}
	if drifted := (c.best.offset - c.offset).Abs() - c.known - c.best.took/2; drifted > c.drifted {
		c.drifted = drifted
	}
}

// compareClocks asks each node for its time, before a batch.
func (b *Backend) compareClocks(ctx context.Context) error {
	for _, c := range b.conns {
		c.clock = clock{}
		if c.lost == "" {
			c.to.Say(ToNode{Ping: new(int64(time.Since(b.epoch)))})
		}
	}
	return b.gather(ctx, "tell the time", func(c *conn, said FromNode) bool {
		if said.Pong == nil {
			return false
		}
		now := time.Since(b.epoch)
		c.heard = now
		if c.clock.take(*said.Pong, now); c.clock.set {
			return true
		}
		c.to.Say(ToNode{Ping: new(int64(time.Since(b.epoch)))})
		return false
	})
}

// tellClocks records how well the times of the nodes are known.
func (h *batch) tellClocks() {
	if h.backend.Mode() == results.Simulated {
		return
	}
	for _, m := range h.members {
		detail := fmt.Sprintf("%s: its times are known to %.3f ms, by the shortest of %d round trips", m.conn.title, ms(m.conn.clock.known), pingsPerSecond)
		if m.conn.clock.drifted > 0 {
			detail += fmt.Sprintf("; later its clock was %.3f ms more apart", ms(m.conn.clock.drifted))
		}
		h.to.Event(results.Event{AtS: h.Now.Seconds(), Kind: results.EventClock, Detail: detail})
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
