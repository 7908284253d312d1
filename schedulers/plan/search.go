package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caserun/caserun/schedulers"
)

// Settings are how a search looks for a plan.
type Settings struct {
	Weight     float64 // of the makespan; the rest is that of the mean turnaround
	Moves      int     // random changes that are tried; ten times as many at first
	Candidates Candidates
	Window     int // at most so many jobs without a device are planned
	Seed       uint64
}

// Candidates is a set of kinds of plans that a search begins with. The current plan is always one.
type Candidates uint8

const (
	Alg3   Candidates = 1 << iota // CASE's Algorithm 3, played forward
	Greedy                        // whatever fits, by several keys
	Serial                        // each job at its earliest time, by several keys
)

var names = []struct {
	name string
	kind Candidates
}{{"alg3", Alg3}, {"greedy", Greedy}, {"serial", Serial}}

// All are all kinds.
const All = Alg3 | Greedy | Serial

// String is what ParseCandidates reads.
func (c Candidates) String() string {
	var out []string
	for _, n := range names {
		if c&n.kind != 0 {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, "+")
}

// ParseCandidates reads names with + between them.
func ParseCandidates(text string) (Candidates, error) {
	var c Candidates
	for part := range strings.SplitSeq(text, "+") {
		found := false
		for _, n := range names {
			if n.name == part {
				c, found = c|n.kind, true
			}
		}
		if !found {
			return 0, fmt.Errorf("%q: use one or more of alg3, greedy and serial, with + between them", text)
		}
	}
	return c, nil
}

// search has the best order so far.
type search struct {
	Settings
	model  *model
	plays  inOrder
	best   order
	score  float64
	latest float64 // when the last job should end at the latest, in seconds from now
}

// late is how much more an end after latest counts, beyond Weight.
const late = 3

// MostMoves bounds Settings.Moves. A first search of a small batch then takes minutes.
const MostMoves = 1_000_000

// MostWindow bounds Settings.Window. The candidates alone of a search for so many jobs take 0.4 s on a core of an AMD EPYC, and those
// for four times as many 27 s.
const MostWindow = 256

// Search returns the best plan that it finds. The same situation and settings give the same plan, unless it
// is stopped: then it is the best so far.
func Search(s Situation, with Settings, stopped func() bool) schedulers.Plan {
	s.Jobs = possible(s)
	latest := latest(s)
	s.Jobs = window(s.Jobs, with.Window)
	x := newSearch(s, with, latest)
	x.try(x.current(s))
	x.candidates(stopped)
	if x.best == nil {
		return schedulers.Plan{}
	}
	moves, heat := x.Moves, warm
	if s.First {
		moves, heat = 10*moves, hot
	}
	x.anneal(moves, heat, stopped)
	return x.plan(s)
}

func newSearch(s Situation, with Settings, latest float64) *search {
	return &search{Settings: with, model: newModel(s), plays: inOrder{heads: make([]int, len(s.Devices))}, score: math.Inf(1), latest: latest}
}

// possible leaves out jobs without a device that no device will ever have room for: where their request
// is as large as expected, it will be refused.
func possible(s Situation) []Job {
	return slices.DeleteFunc(slices.Clone(s.Jobs), func(j Job) bool {
		if j.Stage >= Held {
			return false
		}
		for d, of := range s.Devices {
			if j.may(d, s.Devices) && j.Bytes <= of.CapacityBytes-of.ContextBytes {
				return false
			}
		}
		return true
	})
}

// window leaves out jobs without a device beyond the first n: those that have asked come first, then
// those that will ask first.
func window(jobs []Job, n int) []Job {
	open := 0
	for _, j := range jobs {
		if j.Stage < Held {
			open++
		}
	}
	if n <= 0 || open <= n {
		return jobs
	}
	order := slices.Clone(jobs)
	slices.SortStableFunc(order, func(a, b Job) int {
		if a.Stage != b.Stage {
			return int(b.Stage) - int(a.Stage)
		}
		return int(a.Before - b.Before)
	})
	return order[:len(jobs)-open+n]
}

// play returns the score of an order, infinite if some jobs would never go. The last end counts from now on, and
// turnarounds count whole: the nearer the end is, the more it counts.
func (x *search) play(o order) float64 {
	x.plays.order = o
	clear(x.plays.heads)
	if !x.model.play(&x.plays) {
		return math.Inf(1)
	}
	last, sum := x.model.ends()
	return late*max(0, math.Log(max(last, least)/x.latest)) + x.Weight*math.Log(max(last, least)) + (1-x.Weight)*math.Log(max(sum, least))
}

// mostPlayed is how many jobs may be open where a plan keeps to the end under Algorithm 3. It takes too long to find
// the end of more.
const mostPlayed = 4096

// latest is when the last job would end under Algorithm 3, jobs outside of the window included, as
// it was known at the first search. It is in seconds from now, and infinite if it is not known.
func latest(s Situation) float64 {
	if s.Current.Latest > 0 {
		return max((s.Current.Latest - s.Now).Seconds(), least)
	}
	if len(s.Jobs) > mostPlayed {
		return math.Inf(1)
	}
	m := newModel(s)
	dispatched(m, down(memory), leastLoaded)
	last, _ := m.ends()
	return max(last, least)
}

func (x *search) try(o order) {
	if score := x.play(o); score < x.score {
		x.best, x.score = o, score
	}
}

// current is the plan that is followed now, with jobs that it does not have after the others.
func (x *search) current(s Situation) order {
	out, known := make(order, len(s.Devices)), make([]bool, len(s.Jobs))
	index := map[schedulers.JobID]int{}
	for i, j := range s.Jobs {
		index[j.ID] = i
		known[i] = j.Stage >= Held
	}
	for d, planned := range s.Current.Devices {
		for _, p := range planned {
			if i, ok := index[p.Job]; ok && !known[i] {
				known[i] = true
				out[d] = append(out[d], i)
			}
		}
	}
	for i, k := range known {
		if !k {
			d := max(s.Jobs[i].Only, 0)
			for e := range out {
				if s.Jobs[i].Only < 0 && len(out[e]) < len(out[d]) {
					d = e
				}
			}
			out[d] = append(out[d], i)
		}
	}
	return out
}

func (x *search) candidates(stopped func() bool) {
	m := x.model
	if x.Candidates&Alg3 != 0 {
		x.try(dispatched(m, down(memory), leastLoaded))
	}
	if x.Candidates&Greedy != 0 {
		for _, k := range []key{down(memory), down(held), held, down(area), area} {
			if stopped() {
				return
			}
			x.try(dispatched(m, k, bestFit))
			x.try(dispatched(m, k, worstFit))
		}
	}
	if x.Candidates&Serial != 0 {
		asked := x.asked()
		for _, k := range []key{down(held), held, down(area), area, down(total), total, before, down(memory)} {
			if stopped() {
				return
			}
			x.try(serial(m, asked, ranked(m, k), true))
			x.try(serial(m, asked, ranked(m, k), false))
		}
	}
}

// asked is when each job asks if whatever fits is granted.
func (x *search) asked() []float64 {
	dispatched(x.model, down(area), bestFit)
	return slices.Clone(x.model.asked)
}

// How much worse an order may be and still be taken over. Scores are logarithms: 0.01 is 1 % of makespan or
// turnaround. One job among many matters little, so heat is divided by the number of jobs. A later search begins
// with a good plan, which more heat would lose.
const (
	hot, warm = 0.4, 0.08 // at the start of the first search, and of later ones
	hottest   = 0.03      // for few jobs
	cooling   = 0.01      // the part that is left at the end
)

// anneal tries random changes of the best order. It takes over worse ones with a probability that
// falls with time.
func (x *search) anneal(moves int, heat float64, stopped func() bool) {
	random := rand.New(rand.NewPCG(x.Seed, 1))
	now, score := x.best.clone(), x.score
	jobs := 0
	for _, d := range now {
		jobs += len(d)
	}
	first := min(hottest, heat/float64(max(jobs, 1)))
	for n := range moves {
		if stopped() {
			return
		}
		at := first * math.Pow(cooling, float64(n)/float64(moves))
		undo, ok := change(now, random)
		if !ok {
			return
		}
		next := x.play(now)
		if next > score && random.Float64() >= math.Exp((score-next)/at) {
			undo()
			continue
		}
		score = next
		if score < x.score {
			x.best, x.score = now.clone(), score
		}
	}
}

// change moves one job to another place, or exchanges two jobs. It returns what takes that back; false: there
// is nothing to change.
func change(o order, random *rand.Rand) (undo func(), ok bool) {
	jobs := 0
	for _, d := range o {
		jobs += len(d)
	}
	if jobs < 2 && len(o) < 2 || jobs == 0 {
		return nil, false
	}
	pick := func() (d, at int) {
		n := random.IntN(jobs)
		for d = range o {
			if n < len(o[d]) {
				return d, n
			}
			n -= len(o[d])
		}
		panic("unreachable")
	}
	d, at := pick()
	if random.IntN(2) == 0 {
		e, to := pick()
		o[d][at], o[e][to] = o[e][to], o[d][at]
		return func() { o[d][at], o[e][to] = o[e][to], o[d][at] }, true
	}
	job := o[d][at]
	o[d] = slices.Delete(o[d], at, at+1)
	e := random.IntN(len(o))
	to := random.IntN(len(o[e]) + 1)
	o[e] = slices.Insert(o[e], to, job)
	return func() {
		o[e] = slices.Delete(o[e], to, to+1)
		o[d] = slices.Insert(o[d], at, job)
	}, true
}

// plan tells the best order in the scheduler's words.
func (x *search) plan(s Situation) schedulers.Plan {
	x.play(x.best) // for the times at which jobs ask
	out := schedulers.Plan{Devices: make([][]schedulers.Planned, len(s.Devices))}
	if !math.IsInf(x.latest, 1) {
		out.Latest = s.Now + seconds(x.latest)
	}
	for _, j := range s.Jobs {
		if j.Most > 0 {
			if out.Most == nil {
				out.Most = map[schedulers.JobID]int64{}
			}
			out.Most[j.ID] = j.Most
		}
	}
	for d, jobs := range x.best {
		for _, i := range jobs {
			p := schedulers.Planned{Job: s.Jobs[i].ID, Until: schedulers.Never}
			if s.Jobs[i].Stage != Waiting {
				p.Until = s.Now + seconds(x.model.asked[i]) + s.Jobs[i].Patience
			}
			out.Devices[d] = append(out.Devices[d], p)
		}
	}
	return out
}
