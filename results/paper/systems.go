package paper

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// ByRuns reports whether the paper's systems follow from the runs, and not from their node.
func (p *Paper) ByRuns() bool {
	return slices.ContainsFunc(p.Systems, func(s System) bool { return s.Mixes != "" })
}

// CheckSystem refuses a name with which a user cannot have nodes compared. An empty name is none.
func (p *Paper) CheckSystem(name string) error {
	switch {
	case name == "" || !p.ByRuns() && slices.Contains(p.SystemNames(), name):
		return nil
	case p.ByRuns():
		return fmt.Errorf("the mix and the devices of each run say with what of %s it is compared: leave it out", p.Title)
	}
	return fmt.Errorf("want %s", strings.Join(p.SystemNames(), " or "))
}

func (p *Paper) system(name string) System {
	i := slices.IndexFunc(p.Systems, func(s System) bool { return s.Name == name })
	if i < 0 {
		return System{}
	}
	return p.Systems[i]
}

// mostOff is how far, as a factor, a run's subscription may be from that of its system.
const mostOff = 1.3

// SystemOf returns the system of a run. Of systems with the mix and as many devices it is the one with the nearest subscription, or the first for
// which that does not count. It is empty if no system is near.
// devices are those of the run.
func (p *Paper) SystemOf(mix string, devices []results.Device) string {
	had, nearest, off := subscription(mix, devices), "", math.Log(mostOff)
	name, ending := p.parts(mix)
	for _, s := range p.Systems {
		fits, _ := path.Match(s.Mixes, name) // a bad pattern fits nothing, and fails a test
		if !fits || s.Ending != ending || s.Devices != len(devices) || max(s.Nodes, 1) != nodesOf(devices) {
			continue
		}
		if s.Subscription == 0 {
			return s.Name
		}
		if far := math.Abs(math.Log(had / s.Subscription)); far < off {
			nearest, off = s.Name, far
		}
	}
	return nearest
}

// nodesOf is how many nodes have the devices.
func nodesOf(devices []results.Device) (nodes int) {
	for _, d := range devices {
		nodes = max(nodes, d.Node+1)
	}
	return max(nodes, 1)
}

// schedulers are those under which the system has runs.
func (s System) schedulers(of []string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(name string) bool { return slices.Contains(s.Lacks, name) })
}

// parts are the name of a mix, and the ending that says of which systems it is.
func (p *Paper) parts(mix string) (name, ending string) {
	for _, s := range p.Systems {
		if name, ends := strings.CutSuffix(mix, s.Ending); ends && s.Ending != "" {
			return name, s.Ending
		}
	}
	return mix, ""
}

// subscription is the memory of a mix of the catalog over what the devices have for jobs, beside a context of each job. It is 0 of
// another mix.
func subscription(mix string, devices []results.Device) float64 {
	m, err := mixes.Lookup(mix)
	if err != nil {
		return 0
	}
	wanted, had := int64(0), int64(0)
	for _, j := range m.Jobs {
		wanted += j.Footprint.Bytes
	}
	for _, d := range devices {
		had += d.CapacityBytes - int64(len(m.Jobs))*d.ContextBytes
	}
	return float64(wanted) / float64(had)
}

// jobTime is how long the jobs of a name ran, in the mean; nil if one of them did not end ok.
func (a *arms) jobTime(r results.Run, name string) (*float64, error) {
	jobs, err := a.node.Jobs(r.ID)
	if err != nil {
		return nil, err
	}
	sum, n := 0.0, 0
	for _, j := range jobs {
		switch {
		case j.Name != name:
		case !j.EndedOK() || j.StartS == nil || j.EndS == nil:
			return nil, nil
		default:
			sum, n = sum+*j.EndS-*j.StartS, n+1
		}
	}
	if n == 0 {
		return nil, nil
	}
	return new(sum / float64(n)), nil
}

// jobSpread is how many times as long as the shortest job of a run the longest took; nil: one did not end ok.
func (a *arms) jobSpread(r results.Run) (*float64, error) {
	jobs, err := a.node.Jobs(r.ID)
	if err != nil {
		return nil, err
	}
	shortest, longest := math.Inf(1), 0.0
	for _, j := range jobs {
		if !j.EndedOK() || j.StartS == nil || j.EndS == nil {
			return nil, nil
		}
		took := *j.EndS - *j.StartS
		shortest, longest = min(shortest, took), max(longest, took)
	}
	if shortest <= 0 || longest == 0 {
		return nil, nil
	}
	return new(longest / shortest), nil
}

// stuckRun is the error that a run has no time, because jobs stood still in it.
type stuckRun struct{ run results.Run }

func (e stuckRun) Error() string {
	return fmt.Sprintf("run %d (%s under %s) is stuck", e.run.ID, e.run.Mix, results.NameOf(e.run))
}

// timeOfAll is the makespan of a run whose jobs all ended ok.
func (a *arms) timeOfAll(r results.Run) (*float64, error) {
	if r.Metrics.OK == r.Jobs {
		return r.Metrics.MakespanS, nil
	}
	stuck, err := a.stuck(r)
	if err == nil && *stuck > 0 {
		err = stuckRun{r}
	}
	return nil, err
}

// stuck is 1 if jobs of a run stood still until they were ended, else 0.
func (a *arms) stuck(r results.Run) (*float64, error) {
	if r.Metrics.OK == r.Jobs {
		return new(0.0), nil
	}
	jobs, err := a.node.Jobs(r.ID)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(jobs, func(j results.Job) bool { return j.Outcome != nil && *j.Outcome == results.Timeout }) {
		return new(1.0), nil
	}
	return new(0.0), nil
}

// pageFaults are those of all jobs; nil: none were counted, or a job has not ended ok and would have had more.
func (a *arms) pageFaults(r results.Run) (*float64, error) {
	if r.Metrics.OK < r.Jobs {
		return nil, nil
	}
	events, err := a.node.Events(r.ID)
	if err != nil {
		return nil, err
	}
	sum, counted := 0.0, false
	for _, e := range events {
		if n, ok := results.PageFaults(e); ok {
			sum, counted = sum+float64(n), true
		}
	}
	if !counted {
		return nil, nil
	}
	return &sum, nil
}
