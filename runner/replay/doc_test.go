package replay_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/replay"
)

var update = flag.Bool("update", false, "write the generated table into docs/simulation.md")

// The table of docs/simulation.md is what replays of the committed live runs of W1 to W8 give.
func TestThePageShowsHowReplaysAgreeWithRuns(t *testing.T) {
	const page, begin, end = "../../docs/simulation.md", "<!-- begin replays -->\n", "<!-- end replays -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	shown, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	want := agreement(t)
	if *update && want != shown {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != shown {
		t.Errorf("%s shows\n%s\nand replays give (-update writes it, then read the text around it again)\n%s", page, shown, want)
	}
}

// agreement compares runs replayed under another scheduler with the runs under that scheduler.
func agreement(t *testing.T) string {
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
	rows := []string{"| runs under | replayed under | throughput, replayed over live | least | most |", "|---|---|---|---|---|"}
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
		rows = append(rows, fmt.Sprintf("| %s | %s | %.2f | %.2f | %.2f |", c.from, c.to, math.Exp(logs/float64(n)), least, most))
	}
	return strings.Join(rows, "\n") + "\n"
}

func storedOf(t *testing.T, db *store.Store, run results.Run) *replay.Stored {
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
