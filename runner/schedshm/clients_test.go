package schedshm_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/runner/probe/probetest"
)

const mib = 1 << 20

// native builds a program of native/probe and returns its path.
func native(tb testing.TB, program string) string {
	tb.Helper()
	return filepath.Join(nativetest.Build(tb, "probe", program), program)
}

// client is a process that native/probe/tests/drive.c describes.
type client = probetest.Driver

func start(tb testing.TB, env ...string) *client {
	tb.Helper()
	return probetest.Start(tb, native(tb, "build/drive"), env...)
}

// until waits for a condition.
func until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(probetest.Patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("it never comes to this: %s", what)
		}
	}
}

// scene starts clients of one arbiter.
type scene struct {
	testing.TB
	arbiter
}

// begin starts a client with a priority, which requests a task of size MiB.
func (s scene) begin(priority, size int) *client {
	s.Helper()
	c := start(s, s.env(priority)...)
	c.Say("begin t %d", size*mib)
	return c
}

// holds returns a client that holds a task of size MiB.
func (s scene) holds(priority, size int) *client {
	s.Helper()
	c := s.begin(priority, size)
	c.Hear(granted)
	return c
}

// waits returns a client that waits behind the given number of other clients.
func (s scene) waits(priority, size, others int) *client {
	s.Helper()
	c := s.begin(priority, size)
	s.wait(others + 1)
	return c
}

func (s scene) wait(requests int) {
	s.Helper()
	until(s, fmt.Sprintf("%d requests wait", requests), func() bool { return s.waiting() == requests })
}

func (s scene) uses(bytes int64) {
	s.Helper()
	until(s, fmt.Sprintf("clients have %d bytes", bytes), func() bool { return s.used() == bytes })
}

func (s scene) free(c *client) {
	s.Helper()
	c.Say("free t")
	c.Hear("t 0")
}

const (
	granted  = "t 0 0 171" // CASE_OK, device 0, UUID ab...
	refused  = "t 1 -1 0"
	timedOut = "t 3 -1 0"
	noDevice = "t 4 -1 0"
)

// plain has room for tasks of 1 GiB in total, each with a heap of 1 KiB.
var plain = node{capacity: 1024*mib + 8*1024}

// play runs a scene with both architectures.
func play(t *testing.T, n node, policy string, scenario func(s scene)) {
	for name, architecture := range architectures {
		t.Run(name+"/"+policy, func(t *testing.T) {
			s := scene{t, architecture(t, n, policy)}
			scenario(s)
		})
	}
}

var orders = []string{"fifo", "mmu", "priority-fifo", "priority-mmu"}

// Under fifo the first waiting client blocks the clients behind it. Under mmu the first client that
// fits is served. The priority policies look at priorities first, which are equal here.
func TestEqualPriorities(t *testing.T) {
	for _, policy := range orders {
		play(t, plain, policy, func(s scene) {
			first := s.holds(0, 600)
			large := s.waits(0, 700, 0)
			small := s.begin(0, 300)
			if policy == "fifo" {
				s.wait(2)
			} else {
				small.Hear(granted)
			}
			s.free(first)
			large.Hear(granted)
			if policy == "fifo" {
				small.Hear(granted)
			}
		})
	}
}

// A client of lower priority is never served while a client of higher priority waits, even if only
// the lower one fits. Clients of equal priority may be served.
func TestPriorities(t *testing.T) {
	for _, policy := range []string{"priority-fifo", "priority-mmu"} {
		play(t, plain, policy, func(s scene) {
			first := s.holds(0, 600)
			high := s.waits(2, 700, 0)
			low := s.waits(1, 100, 1)
			equal := s.begin(2, 200)
			equal.Hear(granted)
			s.wait(2)
			s.free(equal) // makes room for the client of low priority again
			s.wait(2)
			s.free(first)
			high.Hear(granted)
			low.Hear(granted)
		})
	}
}

// A request that reaches its wait limit gets an error, and clients behind it can go on.
func TestWaitEnds(t *testing.T) {
	for _, policy := range orders {
		play(t, plain, policy, func(s scene) {
			s.holds(1, 600)
			impatient := start(s, s.env(1)...)
			impatient.Say("wait 100")
			impatient.Say("begin t %d", 700*mib)
			behind := s.begin(0, 300)
			impatient.Hear(timedOut)
			behind.Hear(granted)
		})
	}
}

// A request that does not wait is answered at once and does not affect waiting requests.
func TestNoWait(t *testing.T) {
	for _, policy := range orders {
		play(t, plain, policy, func(s scene) {
			first := s.holds(0, 600)
			waiter := s.waits(0, 700, 0)
			c := start(s, s.env(9)...)
			c.Say("wait none")
			c.Say("begin t %d", 800*mib)
			c.Hear(timedOut)
			c.Say("wait 0")
			s.wait(1)
			s.free(first)
			waiter.Hear(granted)
			c.Say("wait none")
			c.Say("begin t %d", 300*mib)
			c.Hear(granted)
			c.Say("grow t %d", 300*mib)
			c.Hear("t 3 0 171")
		})
	}
}

func TestNeverFits(t *testing.T) {
	play(t, node{capacity: 1000 * mib, context: 100 * mib}, "fifo", func(s scene) {
		c := s.begin(0, 901)
		c.Hear(refused)
		c.Say("on t 1 %d", mib)
		c.Hear(noDevice)
		c.Say("on t 0 %d", mib)
		c.Hear(granted)
		c.Say("grow t %d", 900*mib)
		c.Hear("t 1 0 171")
		s.uses(101*mib + 1024)
	})
}

// A client's context counts from its first grant to its end.
func TestContexts(t *testing.T) {
	play(t, node{capacity: 1000 * mib, context: 100 * mib}, "fifo", func(s scene) {
		first := s.holds(0, 700)
		s.free(first)
		s.uses(100 * mib)
		first.Say("begin t %d", 700*mib)
		first.Hear(granted)
		second := s.waits(0, 850, 0)
		s.free(first)
		s.wait(1)
		first.Finish()
		second.Hear(granted)
		second.Finish()
		s.settled()
	})
}

func TestGrowAndShrink(t *testing.T) {
	play(t, plain, "mmu", func(s scene) {
		grower, other := s.holds(0, 400), s.holds(0, 400)
		grower.Say("grow t %d", 300*mib)
		s.wait(1)
		joiner := s.waits(0, 100, 1) // a device where a task waits to grow admits no new task
		other.Say("shrink t %d", 100*mib)
		other.Hear("t 0")
		grower.Hear(granted)
		s.wait(1)
		s.free(other)
		joiner.Hear(granted)
		s.free(grower)
		s.uses(100*mib + 1024)
	})
}

// Of two tasks that wait to grow, the task of higher priority goes first under the priority
// policies.
func TestGrowthByPriority(t *testing.T) {
	for _, policy := range orders {
		play(t, plain, policy, func(s scene) {
			low, high, other := s.holds(1, 200), s.holds(2, 200), s.holds(0, 500)
			low.Say("grow t %d", 300*mib)
			s.wait(1)
			high.Say("grow t %d", 300*mib)
			s.wait(2)
			other.Say("shrink t %d", 200*mib)
			other.Hear("t 0")
			if strings.HasPrefix(policy, "priority") {
				low, high = high, low
			}
			low.Hear(granted)
			s.wait(1)
		})
	}
}

// Deadlock: if all clients wait for each other to release memory, the last request is refused.
func TestAllWaitToGrow(t *testing.T) {
	play(t, plain, "fifo", func(s scene) {
		a, b := s.holds(0, 400), s.holds(0, 400)
		a.Say("grow t %d", 500*mib)
		s.wait(1)
		b.Say("grow t %d", 500*mib)
		b.Hear("t 1 0 171")
		s.free(b)
		a.Hear(granted)
	})
}

// Deadlock too: the other client holds only a context and waits for a task that would fit, but a
// device where a task waits to grow admits no new task. The growth is refused.
func TestAllWaitAndOneToGrow(t *testing.T) {
	play(t, node{capacity: 1000 * mib, context: 10 * mib}, "fifo", func(s scene) {
		grower, other := s.holds(0, 700), s.holds(0, 100)
		s.free(other)
		s.uses(720*mib + 1024)
		grower.Say("grow t %d", 285*mib)
		s.wait(1)
		other.Say("begin t %d", 100*mib)
		grower.Hear("t 1 0 171")
		other.Hear(granted)
	})
}

// A request that waits for memory of a client that itself waits does not block other requests.
func TestStalled(t *testing.T) {
	play(t, plain, "fifo", func(s scene) {
		holder := s.holds(0, 600)
		holder.Say("begin u %d", 600*mib) // the program already holds a task
		s.wait(1)
		s.begin(0, 300).Hear(granted)
		holder.Say("free t")
		holder.Hear("t 0", "u 0 0 171")
	})
}

// However a client ends, its memory is freed and its requests are dropped.
func TestEnds(t *testing.T) {
	for how, end := range map[string]func(*client){
		"kill": (*client).Kill,
		"exit": func(c *client) { c.Finish() },
		"exec": func(c *client) { c.Say("exec"); c.Hear("again") },
	} {
		t.Run(how, func(t *testing.T) {
			play(t, node{capacity: 1000 * mib, context: 100 * mib}, "fifo", func(s scene) {
				holder := s.holds(0, 700)
				head := s.waits(0, 800, 0)
				next := s.waits(0, 300, 1)
				head.Kill()
				end(holder)
				next.Hear(granted)
				if how == "exec" {
					holder.Say("begin t %d", mib)
					holder.Hear(granted)
				}
				holder.Kill()
				next.Kill()
				s.settled()
			})
		})
	}
}

// A child is a client of its own.
func TestFork(t *testing.T) {
	play(t, node{capacity: 1000 * mib, context: 100 * mib}, "fifo", func(s scene) {
		c := s.holds(0, 300)
		c.Say("fork t %d", 200*mib)
		line := c.Line()
		var pid, freed, begun int
		if _, err := fmt.Sscanf(line, "child %d %d %d", &pid, &freed, &begun); err != nil || freed != 1 || begun != 0 {
			s.Errorf("the child said %q (%v)", line, err)
		}
		c.Say("free t")
		c.Hear("t 0")
		c.Finish()
		s.settled()
	})
}

// A program that closes all descriptors goes on and keeps its memory.
func TestClosesDescriptors(t *testing.T) {
	for _, verb := range []string{"close", "reuse"} {
		play(t, plain, "fifo", func(s scene) {
			c := s.holds(0, 600)
			c.Say("%s", verb)
			c.Hear(strings.TrimSuffix(verb, "e") + "ed")
			other := s.waits(0, 700, 0)
			c.Say("grow t %d", 100*mib)
			c.Hear(granted)
			s.free(c)
			other.Hear(granted)
			if verb == "reuse" {
				c.Say("stolen")
				c.Hear("stolen 0 1")
			}
		})
	}
}

// Where a sandbox forbids the kernel's copies, a client copies itself, beside clients that may use them.
func TestSandbox(t *testing.T) {
	s := scene{t, newShared(t, plain, "fifo")}
	random := rand.New(rand.NewPCG(1, 0))
	var clients []victim
	for range 2 {
		clients = append(clients, churnIn(t, append(s.env(0), "CHURN_SANDBOX=1"), random))
	}
	for range 5 {
		c := s.begin(0, 100)
		c.Hear(granted)
		c.Finish()
	}
	for _, v := range clients {
		v.in.Close()
		if err := v.cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, v.said)
		}
	}
	s.settled()
}
