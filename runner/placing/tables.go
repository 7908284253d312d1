package placing

import (
	"fmt"
	"path/filepath"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results/report"
)

// Columns of both tables.
var (
	simulated       = report.Column{Name: "mode", Place: report.DataOnly}
	allocated       = report.Column{Name: "gpu_allocated", Heading: "allocated", Unit: report.Ratio}
	unallocated     = report.Column{Name: "gpu_unallocated", Heading: "unallocated", Unit: report.Ratio}
	neverPlaced     = report.Column{Name: "never_placed"}
	gpusNeverPlaced = report.Column{Name: "gpus_never_placed", Heading: "their GPUs", Drop: 3}
)

// mode is simulated's cell.
const mode = "sim"

func ratio(name string) report.Column { return report.Column{Name: name, Unit: report.Ratio} }

func (c *cluster) table(outcomes []Outcome) *report.Table {
	where := fmt.Sprintf("%s on %s with %d GPUs", filepath.Base(c.Tasks), size.Count(len(c.nodes), "node"), c.capacity/1000)
	if c.inflate > 0 {
		return c.inflationTable(where, outcomes)
	}
	if c.ArrivalSpeed != 1 {
		where += fmt.Sprintf(", arrivals %g times as fast", c.ArrivalSpeed)
	}
	t := &report.Table{Title: "SIMULATED placement of " + where, Name: "placement", Columns: []report.Column{{Name: "policy"}, simulated,
		allocated, ratio("peak"), unallocated, ratio("fragmented"), neverPlaced, gpusNeverPlaced,
		{Name: "waited", Drop: 2}, {Name: "wait_mean", Unit: report.Seconds}, {Name: "wait_p95", Unit: report.Seconds, Drop: 1}, {Name: "wait_p99", Unit: report.Seconds}}}
	for _, o := range outcomes {
		t.Add(o.Policy, mode, o.Allocated, o.Peak, 1-o.Allocated, o.Fragmented, o.Failed, o.FailedGPUs, o.Waits.Waited, o.Waits.Mean, o.Waits.P95, o.Waits.P99)
	}
	t.Say("SIMULATED: means over the time of the trace, until its last arrival. never placed: tasks that no node had room for.",
		"fragmented: what a task of the trace, drawn at random, cannot use of the free GPUs.")
	return t
}

func (c *cluster) inflationTable(where string, outcomes []Outcome) *report.Table {
	t := &report.Table{Title: fmt.Sprintf("SIMULATED placement of tasks of %s, until they ask for %s of them, %s", where, c.Inflate, size.Count(c.Reps, "repetition")),
		Name: "placement", Columns: []report.Column{{Name: "policy"}, simulated, {Name: "repetitions", Place: report.DataOnly}, {Name: "seed", Place: report.DataOnly},
			allocated, {Name: "least", Unit: report.Ratio, Drop: 2}, {Name: "most", Unit: report.Ratio, Drop: 2},
			unallocated, {Name: "gpus_unallocated", Heading: "GPUs"}, ratio("fragmented"), {Name: "full_at", Unit: report.Ratio}, neverPlaced, gpusNeverPlaced}}
	for first := 0; first < len(outcomes); first += c.Reps {
		of := outcomes[first : first+c.Reps]
		mean := func(value func(Outcome) float64) (sum float64) {
			for _, o := range of {
				sum += value(o) / float64(len(of))
			}
			return sum
		}
		least, most, full := of[0].Allocated, of[0].Allocated, of[0].FullAt
		for _, o := range of {
			least, most = min(least, o.Allocated), max(most, o.Allocated)
			if full == nil || o.FullAt != nil && *o.FullAt < *full {
				full = o.FullAt
			}
		}
		end := mean(func(o Outcome) float64 { return o.Allocated })
		t.Add(of[0].Policy, mode, c.Reps, c.Seed, end, least, most, 1-end, (1-end)*float64(c.capacity)/1000,
			mean(func(o Outcome) float64 { return o.Fragmented }), full, mean(func(o Outcome) float64 { return float64(o.Failed) }), mean(func(o Outcome) float64 { return o.FailedGPUs }))
	}
	t.Say("SIMULATED: means at the end, over repetitions. full at: what had arrived when a task with GPUs first found no room. never placed: tasks that found none.",
		"fragmented: what a task of the trace, drawn at random, cannot use of the free GPUs.")
	return t
}

func (c *cluster) series(outcomes []Outcome) *report.Table {
	at := ratio("load")
	if c.inflate == 0 {
		at = report.Column{Name: "time", Unit: report.Seconds}
	}
	t := &report.Table{Title: "SIMULATED placement over " + at.Name, Name: "series", Columns: []report.Column{{Name: "policy"}, simulated, {Name: "seed"}, at,
		allocated, ratio("fragmented"), {Name: "waiting"}, neverPlaced}}
	for _, o := range outcomes {
		for _, p := range o.Series {
			t.Add(o.Policy, mode, o.Seed, p.At, p.Allocated, p.Fragmented, p.Waiting, p.Failed)
		}
	}
	return t
}
