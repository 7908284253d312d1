package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
)

const gib = int64(1) << 30

var defaults = Settings{Weight: 0.6, Moves: 300, Candidates: All, Window: 64, Seed: 1}

func never() bool { return false }

// node is a node of empty devices with so many GiB, and contexts of 1 GiB.
func node(gibs ...int64) (all []Device) {
	for _, g := range gibs {
		all = append(all, Device{CapacityBytes: g * gib, FreeBytes: g * gib, ContextBytes: gib})
	}
	return all
}

// to is a job that has yet to start, with its times in seconds.
func to(id int, gibs int64, before, held, after float64) Job {
	return Job{ID: schedulers.JobID(id), Device: -1, Only: -1, Bytes: gibs * gib,
		Before: seconds(before), Held: seconds(held), After: seconds(after), Patience: time.Second}
}

// The model's times by hand: shared cores, shared SMs, memory that is waited for, and contexts.
func TestModel(t *testing.T) {
	half := func(j Job) Job { j.Kernels, j.SMs = 0.5, 1; return j }
	held := func(j Job, device int) Job { j.Stage, j.Device = Held, device; return j }
	for _, tt := range []struct {
		name  string
		s     Situation
		order order
		ends  []float64
	}{
		{"alone", Situation{Cores: 1, Devices: node(16), Jobs: []Job{to(0, 8, 1, 2, 3)}}, order{{0}}, []float64{6}},
		{"two on one core", Situation{Cores: 1, Devices: node(16), Jobs: []Job{to(0, 1, 1, 0, 0), to(1, 1, 2, 0, 0)}}, order{{0, 1}}, []float64{2, 3}},
		{"cores unknown", Situation{Devices: node(16), Jobs: []Job{to(0, 1, 1, 0, 0), to(1, 1, 2, 0, 0)}}, order{{0, 1}}, []float64{1, 2}},
		{"one worker", Situation{Workers: 1, Devices: node(16), Jobs: []Job{to(0, 1, 1, 1, 1), to(1, 1, 1, 1, 1)}}, order{{0, 1}}, []float64{3, 6}},
		{"no room beside", Situation{Devices: node(16), Jobs: []Job{to(0, 8, 1, 2, 0), to(1, 8, 1, 2, 0)}}, order{{0, 1}}, []float64{3, 5}},
		{"a context until the exit", Situation{Devices: node(16), Jobs: []Job{to(0, 8, 0, 1, 5), to(1, 15, 0, 1, 0)}}, order{{0, 1}}, []float64{6, 7}},
		{"nobody passes the head", Situation{Devices: node(16), Jobs: []Job{to(0, 1, 3, 1, 0), to(1, 1, 1, 1, 0)}}, order{{0, 1}}, []float64{4, 4}},
		{"kernels share SMs", Situation{Devices: node(16), Jobs: []Job{half(to(0, 1, 0, 2, 0)), half(to(1, 1, 0, 2, 0)), half(to(2, 1, 0, 2, 0))}}, order{{0, 1, 2}}, []float64{2.5, 2.5, 2.5}},
		{"what runs already", Situation{Devices: []Device{{CapacityBytes: 16 * gib, FreeBytes: 7 * gib, ContextBytes: gib}}, Jobs: []Job{held(to(0, 8, 9, 2, 1), 0), to(1, 8, 0, 1, 0)}}, order{{1}}, []float64{3, 3}},
	} {
		m := newModel(tt.s)
		if !m.play(&inOrder{order: tt.order, heads: make([]int, len(tt.order))}) {
			t.Errorf("%s: not all jobs end", tt.name)
			continue
		}
		for i, want := range tt.ends {
			if math.Abs(m.end[i]-want) > 1e-6 {
				t.Errorf("%s: job %d ends at %.3f s, want %.3f", tt.name, i, m.end[i], want)
			}
		}
	}
}

// A head that no room will ever be for is not a plan.
func TestAPlanThatNeverEndsIsNone(t *testing.T) {
	m := newModel(Situation{Devices: node(16), Jobs: []Job{to(0, 16, 0, 1, 0)}})
	if m.play(&inOrder{order: order{{0}}, heads: []int{0}}) {
		t.Error("a job that fits nowhere has ended")
	}
}

// random is a situation in the middle of a batch.
func random(r *rand.Rand, jobs, devices int) Situation {
	s := Situation{Now: time.Duration(r.IntN(100)) * time.Second, Cores: 1 + r.IntN(8), Devices: node(slices.Repeat([]int64{16}, devices)...), First: r.IntN(2) == 0}
	for i := range jobs {
		j := to(i, 1+r.Int64N(15), r.Float64()*10, r.Float64()*10, r.Float64())
		j.Kernels, j.SMs = r.Float64(), r.Float64()
		j.Stage = []Stage{Coming, Before, Before, Waiting, Held}[r.IntN(5)]
		if j.Stage == Held {
			at := r.IntN(devices)
			d := &s.Devices[at]
			if j.Bytes+d.ContextBytes > d.FreeBytes {
				j.Stage = Waiting
			} else {
				d.FreeBytes -= j.Bytes + d.ContextBytes
				j.Device = at
			}
		}
		if j.Stage == Waiting && r.IntN(5) == 0 {
			j.Only = r.IntN(devices)
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s
}

// A plan has each job that has no device yet once, on a device that it may have, waits for ever only for those
// that have asked, and is the same each time.
func TestPlans(t *testing.T) {
	for seed := range chance.Seeds(t, 60, 600) {
		s := random(rand.New(rand.NewPCG(seed, 1)), 1+int(seed%20), 1+int(seed%3))
		s.Devices[0].Closed = seed%6 == 1 // and another is open
		p := Search(s, defaults, never)
		if again := Search(s, defaults, never); !cmp.Equal(p, again) {
			t.Fatalf("seed %d: the same search found\n%v\nand then\n%v", seed, p, again)
		}
		planned := map[schedulers.JobID]bool{}
		for d, jobs := range p.Devices {
			for _, next := range jobs {
				j := s.Jobs[next.Job]
				if planned[next.Job] || j.Stage >= Held || !j.may(d, s.Devices) {
					t.Errorf("seed %d: device %d is to go to %+v, which is twice in the plan or has its device", seed, d, j)
				}
				if (j.Stage == Waiting) != (next.Until == schedulers.Never) || next.Until < s.Now+j.Patience {
					t.Errorf("seed %d: %+v is waited for until %v", seed, j, next.Until)
				}
				planned[next.Job] = true
			}
		}
		for _, j := range s.Jobs {
			if j.Stage < Held != planned[j.ID] {
				t.Errorf("seed %d: %+v is in the plan: %v", seed, j, planned[j.ID])
			}
		}
	}
}

// On small batches the search finds the best of all orders.
func TestSearchFindsTheBest(t *testing.T) {
	found := 0
	for seed := range uint64(20) {
		s := random(rand.New(rand.NewPCG(seed, 2)), 5, 2)
		x := newSearch(s, defaults, latest(s))
		best := math.Inf(1)
		each(open(s), 2, func(o order) { best = min(best, x.play(o)) })
		p := Search(s, defaults, never)
		got := x.play(indices(p))
		if got < best-1e-9 {
			t.Fatalf("seed %d: score %.6f is better than the best, %.6f", seed, got, best)
		}
		if got < best+1e-9 {
			found++
		} else if got > best+0.02 {
			t.Errorf("seed %d: score %.6f, the best is %.6f", seed, got, best)
		}
	}
	if found < 19 {
		t.Errorf("the best of all orders was found in %d of 20 searches", found)
	}
}

// When the batch should end at the latest does not depend on how many of its jobs are planned at once.
func TestLatestIsOfAllJobs(t *testing.T) {
	for seed := range chance.Seeds(t, 20, 2000) {
		s := random(rand.New(rand.NewPCG(seed, 6)), 12, 2)
		with := defaults
		want := Search(s, with, never).Latest
		if with.Window = 2; Search(s, with, never).Latest != want {
			t.Errorf("seed %d: the batch should end by %v, with two jobs planned at once by %v", seed, want, Search(s, with, never).Latest)
		}
	}
}

func open(s Situation) (all []int) {
	for i, j := range s.Jobs {
		if j.Stage < Held {
			all = append(all, i)
		}
	}
	return all
}

// indices is a plan of jobs whose ids are their indices.
func indices(p schedulers.Plan) order {
	o := make(order, len(p.Devices))
	for d, jobs := range p.Devices {
		for _, j := range jobs {
			o[d] = append(o[d], int(j.Job))
		}
	}
	return o
}

// each shows all orders of jobs on so many devices.
func each(jobs []int, devices int, show func(order)) {
	o := make(order, devices)
	var place func(n int)
	place = func(n int) {
		if n == len(jobs) {
			show(o)
			return
		}
		for d := range o {
			for at := range len(o[d]) + 1 {
				was := slices.Clone(o[d])
				o[d] = slices.Insert(o[d], at, jobs[n])
				place(n + 1)
				o[d] = was
			}
		}
	}
	place(0)
}

// More moves never make a plan worse, and a plan is never worse than any candidate.
func TestSearchKeepsTheBest(t *testing.T) {
	for seed := range chance.Seeds(t, 50, 500) {
		s := random(rand.New(rand.NewPCG(seed, 3)), 12, 3)
		s.First = false
		x := &search{Settings: defaults, model: newModel(s), latest: latest(s)}
		x.plays.heads = make([]int, 3)
		before := math.Inf(1)
		for _, with := range []Settings{{Candidates: Alg3}, {Candidates: Alg3 | Greedy}, {Candidates: All}, {Candidates: All, Moves: 200}} {
			with.Weight, with.Window, with.Seed = 0.6, 64, 1
			score := x.play(indices(Search(s, with, never)))
			if score > before+1e-9 {
				t.Errorf("seed %d: %+v scores %.6f, less effort %.6f", seed, with, score, before)
			}
			before = score
		}
	}
}

// Jobs beyond the window and jobs that fit nowhere are not planned; those that have asked go first into the window.
func TestWindow(t *testing.T) {
	s := Situation{Devices: node(16), Jobs: []Job{to(0, 1, 5, 1, 0), to(1, 1, 3, 1, 0), to(2, 1, 4, 1, 0), to(3, 16, 0, 1, 0)}}
	s.Jobs[0].Stage, s.Jobs[1].Stage, s.Jobs[2].Stage = Waiting, Before, Before
	p := Search(s, Settings{Weight: 0.6, Moves: 10, Candidates: All, Window: 2}, never)
	var got []schedulers.JobID
	for _, j := range p.Devices[0] {
		got = append(got, j.Job)
	}
	slices.Sort(got)
	if want := []schedulers.JobID{0, 1}; !slices.Equal(got, want) {
		t.Errorf("planned %v, want %v", got, want)
	}
}

// Serial generation holds a time-by-time count of memory.
func TestEarliest(t *testing.T) {
	for seed := range chance.Seeds(t, 300, 30_000) {
		r := rand.New(rand.NewPCG(seed, 4))
		var spans []span
		for range r.IntN(6) {
			from := float64(r.IntN(10))
			spans = append(spans, span{from, from + float64(1+r.IntN(5)), 1 + r.Int64N(5)})
		}
		free, need, from, long := int64(10), 1+r.Int64N(9), float64(r.IntN(5)), float64(1+r.IntN(4))
		use := func(at float64) (sum int64) {
			for _, s := range spans {
				if s.from <= at && at < s.to {
					sum += s.bytes
				}
			}
			return sum
		}
		fits := func(at float64) bool {
			for x := at; x < at+long; x += 0.5 {
				if use(x)+need > free {
					return false
				}
			}
			return true
		}
		want := from
		for !fits(want) {
			want++
		}
		if got, _ := earliest(spans, free, need, from, long); got != want {
			t.Errorf("seed %d: %d of %d bytes for %g s beside %v from %g: at %g, want %g", seed, need, free, long, spans, from, got, want)
		}
	}
}

func TestTracker(t *testing.T) {
	expected := []schedulers.Prediction{{Before: 4 * time.Second, Held: 10 * time.Second, After: time.Second}, {Before: 4 * time.Second, Held: time.Second}}
	tr := NewTracker(expected, nil, 1, 1)
	tr.Enter(0, Before, -1, 0)
	tr.Enter(1, Before, -1, 0)
	tr.Advance(4 * time.Second) // two on one core: each has done the work of 2 s
	if got := tr.Job(0).Before; got != 2*time.Second {
		t.Errorf("%v are left until the request, want 2 s", got)
	}
	tr.Enter(1, Waiting, -1, 4*time.Second)
	tr.Advance(7 * time.Second) // alone, and late by 1 s
	if j := tr.Job(0); j.Before != 50*time.Millisecond || j.Patience != time.Second {
		t.Errorf("a job that is late by 1 s of 4: %v left, %v of patience; want 50ms and 1s of the 2", j.Before, j.Patience)
	}
	tr.Enter(0, Held, 0, 7*time.Second)
	tr.Enter(0, After, -1, 10*time.Second)
	if j := tr.Job(0); j.Stage != After || j.Device != 0 || j.After != time.Second {
		t.Errorf("behind its task: %+v", j)
	}
	tr.Enter(0, Held, 0, 11*time.Second)
	if got := tr.Job(0).Held; got != 7*time.Second {
		t.Errorf("its second task is to take %v, want what is left of 10 s, 7", got)
	}
}

// Shortest first is for many jobs that would hold each other up, and longest first for one that would end last.
func TestNiceIsTheRuleWithTheBestCandidate(t *testing.T) {
	second := func(s ...float64) (all []schedulers.Prediction) {
		for _, s := range s {
			all = append(all, schedulers.Prediction{Before: seconds(s), Held: time.Second, Bytes: 1 << 30})
		}
		return all
	}
	of := func(expected []schedulers.Prediction) Situation {
		s := Situation{Cores: 1, Devices: node(16)}
		for i, e := range expected {
			s.Jobs = append(s.Jobs, to(i, 1, e.Before.Seconds(), e.Held.Seconds(), e.After.Seconds()))
			s.Jobs[i].Kernels = e.Kernels
		}
		return s
	}
	for _, c := range []struct {
		name     string
		expected []schedulers.Prediction
		weight   float64
		want     []int
	}{
		{"turnaround alone", second(10, 1, 1, 1), 0, []int{15, 1, 5, 10}},
		{"makespan alone", append(second(5, 5, 5), schedulers.Prediction{Before: 5 * time.Second, Held: 20 * time.Second, Kernels: 1, Bytes: 1 << 30}), 1, []int{5, 10, 15, 1}},
	} {
		with := defaults
		with.Weight = c.weight
		if got := Nice(of(c.expected), c.expected, with); !slices.Equal(got, c.want) {
			t.Errorf("%s: levels %v, want %v", c.name, got, c.want)
		}
	}
	if got := Nice(Situation{}, make([]schedulers.Prediction, mostCompared+1), defaults); got[0] != 1 || got[mostCompared] != schedulers.NiceLevels-1 {
		t.Errorf("levels of a large batch are %d to %d, want all of them, by length", got[0], got[mostCompared])
	}
}

// A nicer job gets less of the host until it has a device, in the tracker and in the model alike.
func TestNiceJobs(t *testing.T) {
	expected := []schedulers.Prediction{{Before: 4 * time.Second, Held: 4 * time.Second}, {Before: 4 * time.Second, Held: 4 * time.Second}}
	tr := NewTracker(expected, []int{0, 5}, 1, 1)
	tr.Enter(0, Before, -1, 0)
	tr.Enter(1, Before, -1, 0)
	s := Situation{Cores: 1, Devices: node(16), Jobs: []Job{tr.Job(0), tr.Job(1)}}
	m := newModel(s)
	dispatched(m, before, bestFit)
	const share = 335. / 1359 // of level 5 beside level 0
	first := 4 / (1 - share)
	tr.Advance(seconds(first))
	left := tr.Job(1).Before.Seconds()
	if want := 4 - first*share; math.Abs(left-want) > 1e-6 || math.Abs(m.asked[0]-first) > 1e-6 {
		t.Errorf("the first asks at %g s, want %g, and the nicer one has %g s left, want %g", m.asked[0], first, left, want)
	}
	// While it has the device, the other one is nice still.
	if want := first + 4/(1-share); math.Abs(m.end[0]-want) > 1e-6 {
		t.Errorf("the first ends at %g s, want %g", m.end[0], want)
	}
	tr.Enter(0, Held, 0, seconds(first))
	tr.Enter(1, Held, 0, seconds(first))
	tr.Advance(seconds(first + 2))
	if got := tr.Job(1).Held; got != 3*time.Second {
		t.Errorf("two with a device on one core for 2 s: %v of 4 s left, want 3 s", got)
	}
}

// A search that is stopped at once gives what it begins with: the best candidate.
func TestASearchIsStopped(t *testing.T) {
	s := random(rand.New(rand.NewPCG(1, 7)), 16, 4)
	candidates, long := defaults, defaults
	candidates.Moves, long.Moves = 0, MostMoves
	if want, got := Search(s, candidates, never), Search(s, long, func() bool { return true }); !cmp.Equal(got, want) {
		t.Errorf("stopped at once: %v, want the best candidate %v", got, want)
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, jobs := range []int{16, 32, 64, 128} {
		b.Run(fmt.Sprint(jobs, "_jobs"), func(b *testing.B) {
			s := random(rand.New(rand.NewPCG(1, 5)), jobs, 4)
			s.First = false
			with := defaults
			with.Moves = 2000
			for b.Loop() {
				Search(s, with, never)
			}
		})
	}
}
