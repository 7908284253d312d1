package replay_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/caserun/caserun/docs/pagetest"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/replay"
)

// The table of docs/simulation.md is what replays of the committed live runs of W1 to W8 give.
func TestThePageShowsHowReplaysAgreeWithRuns(t *testing.T) {
	pagetest.Shows(t, "../../docs/simulation.md", pagetest.Table{Name: "replays", Generate: agreement})
}

// agreement compares runs replayed under another scheduler with the runs under that scheduler.
func agreement(t testing.TB) string {
	t.Helper()
	ctx := context.Background()
	b, err := bundle.Open(ctx, "../../docs/evaluation/sweep.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	runs, err := b.Runs(ctx, store.Filter{Status: results.Complete})
	if err != nil {
		t.Fatal(err)
	}
	live := map[string]map[string]results.Run{} // by scheduler and mix
	for _, r := range runs {
		if live[r.Scheduler] == nil {
			live[r.Scheduler] = map[string]results.Run{}
		}
		live[r.Scheduler][r.Mix] = r
	}
	rows := [][]string{{"runs under", "replayed under", "throughput, replayed over live", "least", "most"}}
	for _, c := range []struct{ from, to string }{
		{"case-alg3", "case-alg3"}, {"case-alg2", "case-alg2"}, {"sa", "sa"},
		{"case-alg2", "case-alg3"}, {"case-alg3", "case-alg2"}, {"sa", "case-alg3"}, {"case-alg3", "sa"},
	} {
		logs, least, most, n := 0.0, math.Inf(1), 0.0, 0
		for mix, from := range live[c.from] {
			to, ok := live[c.to][mix]
			if !ok {
				continue
			}
			s := storedOf(t, b.Store, from)
			jobs, err := s.Under(ctx, scheduler(t, c.to, len(s.Devices)))
			if err != nil {
				t.Fatal(err)
			}
			ratio := *results.Compute(from, s.Devices, jobs, nil, results.Residence{}).ThroughputJobsPerS / *to.Metrics.ThroughputJobsPerS
			logs, least, most, n = logs+math.Log(ratio), min(least, ratio), max(most, ratio), n+1
		}
		if n != 8 {
			t.Errorf("%s to %s: %d mixes, want 8", c.from, c.to, n)
		}
		rows = append(rows, []string{c.from, c.to, fmt.Sprintf("%.2f", math.Exp(logs/float64(n))), fmt.Sprintf("%.2f", least), fmt.Sprintf("%.2f", most)})
	}
	return pagetest.Markdown(rows)
}

func storedOf(t testing.TB, db *store.Store, run results.Run) *replay.Stored {
	t.Helper()
	ctx := context.Background()
	devices, err := db.Devices(ctx, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := db.Jobs(ctx, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := db.Tasks(ctx, run.ID)
	if err != nil {
		t.Fatal(err)
	}
	s, err := replay.NewStored(run, run.Provenance.Cores, devices, jobs, tasks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
