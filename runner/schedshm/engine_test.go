package schedshm_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
)

// actor is a client in a random sequence of steps, with one task at a time.
type actor struct {
	*client
	priority int
	id       schedulers.TaskID // of its task; 0: none
	holds    int64             // MiB
	asks     int64             // MiB whose request waits; 0: no request waits
	grows    bool
}

// drama does the same steps with clients that decide for themselves and with the engine, whose
// decisions say what each client must be told.
type drama struct {
	scene
	engine *engine.Engine
	actors []*actor
	last   schedulers.TaskID
}

func (d *drama) of(job schedulers.JobID) *actor { return d.actors[job] }

// told expects from the clients the engine's decisions, and nothing else.
func (d *drama) told(decisions []schedulers.Decision, err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
	for _, decision := range decisions {
		a, code, device := d.of(decision.Task.Job), 0, "0 171"
		switch {
		case decision.Reason == nil:
			a.holds += a.asks
		case decision.Reason.Cause == schedulers.TimedOut:
			code = 3
		default:
			code = 1
		}
		if decision.Kind == schedulers.Refused {
			a.id, device = 0, "-1 0"
		}
		a.asks = 0
		a.Hear(fmt.Sprintf("t %d %s", code, device))
	}
	waiting := 0
	for _, a := range d.actors {
		if a.asks > 0 {
			waiting++
		}
	}
	d.wait(waiting)
	d.uses(d.engine.View().Device(0).UsedBytes())
}

// step lets an actor without a waiting request do something.
func (d *drama) step(random *rand.Rand, job int) {
	d.Helper()
	a := d.actors[job]
	size := 1 + random.Int64N(90)*10
	var wait *time.Duration
	text := "0"
	if random.IntN(4) == 0 {
		wait, text = new(time.Duration(0)), "none"
	}
	switch action := random.IntN(4); {
	case a.id == 0:
		d.last++
		a.id, a.asks, a.grows = d.last, size, false
		a.Say("wait %s", text)
		a.Say("begin t %d", size*mib-1024)
		d.told(d.engine.Submit(schedulers.Task{ID: a.id, Job: schedulers.JobID(job), Bytes: size * mib, Priority: a.priority, Wait: wait}, 0))
	case action == 0:
		a.asks, a.grows = size, true
		a.Say("wait %s", text)
		a.Say("grow t %d", size*mib)
		d.told(d.engine.Grow(a.id, size*mib, wait, 0))
	case action == 1 && a.holds > 1:
		back := random.Int64N(a.holds)
		a.holds -= back
		a.Say("shrink t %d", back*mib)
		a.Hear("t 0")
		d.told(d.engine.Shrink(a.id, back*mib))
	default:
		a.Say("free t")
		a.Hear("t 0")
		id := a.id
		a.id, a.holds = 0, 0
		d.told(d.engine.Release(id))
	}
}

// end kills an actor, whatever it does, and replaces it by a new one.
func (d *drama) end(job int) {
	d.Helper()
	a := d.actors[job]
	a.Kill()
	*a = actor{client: start(d, d.env(a.priority)...), priority: a.priority}
	looks := start(d, d.env(0)...) // a client that ends looks for dead clients
	looks.Say("oom 1 x")
	looks.Hear("reported")
	looks.Finish()
	d.told(d.engine.JobExit(schedulers.JobID(job)), nil)
}

// In random sequences of steps, clients that decide for themselves grant, refuse and delay the same
// requests as the engine.
func TestClientsDecideAsTheEngineDoes(t *testing.T) {
	for seed := range chance.Seeds(t, 1, 20) {
		for at, policy := range orders {
			t.Run(fmt.Sprint(policy, " ", seed), func(t *testing.T) {
				t.Parallel()
				playOut(t, policy, rand.New(rand.NewPCG(seed, uint64(at))))
			})
		}
	}
}

func playOut(t *testing.T, policy string, random *rand.Rand) {
	t.Helper()
	n := node{capacity: 1000 * mib, context: 10 * mib}
	s := scene{t, newShared(t, n, policy)}
	d := &drama{scene: s, engine: newServer(t, n, policy).(*server).engine}
	for i := range 6 {
		d.actors = append(d.actors, &actor{client: start(t, s.env(i/2)...), priority: i / 2})
	}
	for range 250 {
		job := random.IntN(len(d.actors))
		if a := d.actors[job]; a.asks == 0 {
			d.step(random, job)
		} else if a.id != 0 && random.IntN(6) == 0 {
			d.end(job)
		}
	}
}
