package policies

import (
	"fmt"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/plan"
)

// A scheduler that plans the whole batch ahead (package plan) has two policies. The plan says which job goes next and where,
// and Algorithm 3 decides until the first search has ended. If too little is known of the jobs, nothing is planned, and a task
// goes to the device on which it leaves the least memory free.

// leastFree is the second policy.
type leastFree struct {
	MemoryHard
	IgnoresSMs
}

// Planning is how a scheduler plans.
type Planning struct {
	plan.Settings
	Unplanned schedulers.Policy // decides alone if too little is known of the jobs
	Learn     bool              // from earlier runs; otherwise nothing is known of any job
	Error     float64           // part of each expected duration by which it is falsified at most, for experiments
}

var planEntry = entry{
	Info: Info{Name: "plan", Binds: BindsTask, Shares: true, Predicts: true,
		Brief:  "memory hard: an order for each device, from what the jobs did in earlier runs",
		Rule:   "memory hard: an order for each device, found by search over what the jobs of the batch did in earlier runs",
		Source: "this project; docs/design/plan.md",
		Params: []Param{paramPlanQueue, withDefault(paramAge, "0"), paramWait, paramRoom, paramManaged, paramIsolate, paramNice,
			{Name: "weight", Default: "0.6", Help: "weight of the makespan, from 0 to 1; the rest is that of the mean turnaround"},
			{Name: "search", Default: "2000", Help: fmt.Sprintf("random changes of a plan that are tried at each step, at most %d, and ten times as many at the start", plan.MostMoves)},
			{Name: "candidates", Default: plan.All.String(), Help: "what a search begins with: alg3, greedy, serial, with + between them"},
			{Name: "window", Default: "64", Help: fmt.Sprintf("jobs without a device that are planned at once, at most; up to %d", plan.MostWindow)},
			{Name: "learn", Default: learnOn, Values: []string{learnOn, learnOff}, Help: "on: from earlier runs and profiles; off: nothing is known of the jobs"},
			{Name: "error", Default: "0", Help: "part by which each expected duration is falsified at most, from 0 to 0.99, for experiments"}}},
	policy: func(s settings) (schedulers.Policy, error) {
		memory, err := s.memory()
		return caseAlg3{MemoryHard: memory}, err
	},
}

const (
	learnOn  = "on"
	learnOff = "off"
)

func (p leastFree) Place(t schedulers.Task, v schedulers.View) (schedulers.Placement, bool) {
	var best schedulers.Placement
	var least int64 // bytes free on the best device
	found := false
	for i := range v.Len() {
		d := v.Device(i)
		at, ok := p.Admits(t, d)
		if !ok || !d.Open(t) {
			continue
		}
		if free := d.FreeBytes(); !found || free < least {
			best, least, found = at, free, true
			best.Device = i
		}
	}
	return best, found
}

// planning reads how the scheduler plans.
func (s settings) planning() (*Planning, error) {
	memory, err := s.memory()
	if err != nil {
		return nil, err
	}
	p := &Planning{Unplanned: leastFree{MemoryHard: memory}, Learn: s["learn"] == learnOn}
	if p.Weight, err = s.part("weight", 1); err != nil {
		return nil, err
	}
	if p.Error, err = s.part("error", 0.99); err != nil {
		return nil, err
	}
	if p.Moves, err = s.number("search", 0); err != nil {
		return nil, err
	}
	if p.Moves > plan.MostMoves {
		return nil, fmt.Errorf("search=%d: want at most %d changes", p.Moves, plan.MostMoves)
	}
	if p.Window, err = s.number("window", 1); err != nil {
		return nil, err
	}
	if p.Window > plan.MostWindow {
		return nil, fmt.Errorf("window=%d: want at most %d jobs", p.Window, plan.MostWindow)
	}
	if p.Candidates, err = plan.ParseCandidates(s["candidates"]); err != nil {
		return nil, fmt.Errorf("candidates=%w", err)
	}
	return p, nil
}

// part reads a number from 0 to most.
func (s settings) part(key string, most float64) (float64, error) {
	f, err := input.Float(s[key])
	if err != nil || !(f >= 0 && f <= most) {
		return 0, fmt.Errorf("%s=%s: want a plain decimal number from 0 to %g", key, s[key], most)
	}
	return f, nil
}
