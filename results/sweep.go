package results

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/schedulers"
)

// Planned is the status of a sweep that has begun no run.
const Planned Status = "planned"

// Sweep is a matrix of runs on one node, planned as a whole before its first run. Its status
// is running while a process works on the sweep, and after that process died. It is complete
// once the run of every cell is complete.
type Sweep struct {
	ID          int64
	Name        string // the user's; may be empty
	Tag         string // of its runs; may be empty
	Spec        string // what it was planned from, as JSON
	Node        string
	Mode        Mode
	Seed        uint64
	Repetitions int
	CreatedAt   *time.Time // nil in a simulated sweep, which depends on its inputs only
	Status      Status
	Host        string // of the process that works on it; empty if none does
	PID         *int   // of that process
	Note        string // what a reader must know of how it ran, such as a change of program
	Remark      string // what a user has noted of it; may be empty
}

// Noise is σ of the logarithm of a phase's length in the runs of a simulated sweep; nil if that is
// unknown.
func (w Sweep) Noise() *float64 {
	var planned struct {
		Settings struct {
			Noise *float64 `json:"sim-noise"`
		} `json:"settings"`
	}
	if w.Mode != Simulated || json.Unmarshal([]byte(w.Spec), &planned) != nil {
		return nil
	}
	return planned.Settings.Noise
}

// Repeats says how often a simulated sweep repeats each arm, and with what noise, as "7 repetitions,
// noise 1 %". Unknown noise is nil.
func Repeats(repetitions int, noise *float64) string {
	text := fmt.Sprintf("%d repetitions", repetitions)
	if repetitions == 1 {
		text = "1 repetition"
	}
	switch {
	case noise == nil:
		return text
	case *noise == 0:
		return text + ", no noise"
	}
	return text + ", noise " + NoisePercent(*noise)
}

// NoisePercent is noise as it was set, in percent.
func NoisePercent(noise float64) string { return fmt.Sprintf("%.12g %%", 100*noise) }

// Cell is one run of a sweep's plan.
type Cell struct {
	Sweep      int64
	Position   int // in the order of execution, from 0
	Mix        string
	MixSource  string
	Scheduler  string // with the parameters that were asked for
	Probe      Probe
	Repetition int  // from 1; warm-ups are counted separately
	Warmup     bool // it runs to warm up the node and is not a measurement
	Seed       uint64
	Run        *int64 // the latest run that began for it
}

// SchedulerText is the cell's scheduler and probe, as "case-alg3" or "case-alg3:queue=fifo,probe=static", or "fifo" if the user
// named it so.
func (c Cell) SchedulerText() string {
	name, scheduler, named := schedulers.CutName(c.Scheduler)
	if named {
		return WithProbe(name, c.Probe)
	}
	return WithProbe(scheduler, c.Probe)
}

// Spec is what a sweep was planned from, as its row keeps it. It is enough to resume the sweep,
// and to notice that something has changed on which the sweep depends.
type Spec struct {
	Name     string          `json:"name,omitempty"`
	Mixes    []SpecMix       `json:"mixes"`
	Scheds   []string        `json:"scheds"`
	Probes   []Probe         `json:"probes"`
	Reps     int             `json:"reps"`
	Warmups  int             `json:"warmups"`
	Settings json.RawMessage `json:"settings"` // what all runs share, by key
	Program  Program         `json:"program"`
	// Estimates are the seconds that a run of each arm may take, as known when the sweep was planned.
	// Sort has the arms' order. Sweeps of earlier versions have none.
	Estimates []float64 `json:"estimates_s,omitempty"`
}

// SpecMix is a mix as it was when the sweep was planned.
type SpecMix struct {
	Arg    string `json:"arg"` // as the user named it
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of its jobs and of their profiles
	Jobs   string `json:"jobs_sha256,omitempty"`
}

// Program is the build that planned a sweep.
type Program struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	SHA256   string `json:"sha256"`
}

// ReadSpec reads what a sweep was planned from.
func ReadSpec(w Sweep) (Spec, error) {
	var spec Spec
	if err := json.NewDecoder(strings.NewReader(w.Spec)).Decode(&spec); err != nil {
		return spec, fmt.Errorf("read what sweep %d was planned from: %w", w.ID, err)
	}
	if len(spec.Probes) == 0 { // planned before there was a choice
		spec.Probes = []Probe{Lazy}
	}
	for i := range spec.Mixes { // earlier versions stored names as they were spelled
		spec.Mixes[i].Name = input.Name(spec.Mixes[i].Name)
	}
	return spec, nil
}

// Args are the mixes as the user named them.
func (s Spec) Args() []string {
	var args []string
	for _, m := range s.Mixes {
		args = append(args, m.Arg)
	}
	return args
}

// Sort puts cells into the order in which the user named mixes, probes and schedulers.
func (s Spec) Sort(cells []Cell) {
	arm := s.arms()
	slices.SortStableFunc(cells, func(a, b Cell) int { return arm(a) - arm(b) })
}

// Place is where a cell's arm is in the plan: at the first place if the plan lacks it.
func (s Spec) Place(c Cell) Place {
	return Place{
		Mix: max(0, slices.IndexFunc(s.Mixes, func(m SpecMix) bool { return m.Name == input.Name(c.Mix) })),
		Way: max(0, slices.Index(s.Scheds, c.Scheduler)) + len(s.Scheds)*max(0, slices.Index(s.Probes, c.Probe)),
	}
}

// arms returns a function that gives a cell its arm's place among all arms, from 0.
func (s Spec) arms() func(Cell) int {
	place := map[string]int{}
	arms := len(s.Scheds) * len(s.Probes)
	for i, m := range s.Mixes {
		place[m.Name] = i * arms
	}
	return func(c Cell) int {
		return place[c.Mix] + slices.Index(s.Scheds, c.Scheduler) + len(s.Scheds)*slices.Index(s.Probes, c.Probe)
	}
}

// Expected returns a function that gives the seconds that a cell's run may take, as known when the
// sweep was planned. Runs of a sweep of an earlier version count as one second each.
func (s Spec) Expected() func(Cell) float64 {
	arm := s.arms()
	return func(c Cell) float64 {
		if i := arm(c); i < len(s.Estimates) {
			return s.Estimates[i]
		}
		return 1
	}
}
