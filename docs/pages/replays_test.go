package pages

import (
	"fmt"
	"math"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/replay"
	"github.com/caserun/caserun/schedulers/policies"
)

// agreement compares runs replayed under another scheduler with the runs under that scheduler.
func agreement() string {
	b := must(bundle.Open(ctx, "docs/results/bundles/sweep.tar.gz"))
	defer b.Close()
	runs := must(b.Runs(ctx, store.Filter{Status: results.Complete}))
	live := map[string]map[string]results.Run{} // by scheduler and mix
	for _, r := range runs {
		if live[r.Scheduler] == nil {
			live[r.Scheduler] = map[string]results.Run{}
		}
		live[r.Scheduler][r.Mix] = r
	}
	rows := [][]string{{"runs under", "replayed under", "throughput, replayed over live", "least", "most"}}
	for _, c := range []struct{ from, to string }{
		{"case-alg3", "case-alg3"}, {"case-alg2", "case-alg2"}, {"sa", "sa"}, // the page has a sentence for these
		{"case-alg2", "case-alg3"}, {"case-alg3", "case-alg2"}, {"sa", "case-alg3"}, {"case-alg3", "sa"},
	} {
		logs, least, most, n := 0.0, math.Inf(1), 0.0, 0
		for mix, from := range live[c.from] {
			to, ok := live[c.to][mix]
			if !ok {
				continue
			}
			s := must(replay.Load(ctx, b.Store, from))
			jobs := must(s.Under(ctx, must(policies.Parse(c.to, len(s.Devices)))))
			ratio := *results.Compute(from, s.Devices, jobs, nil, results.Residence{}).ThroughputJobsPerS / *to.Metrics.ThroughputJobsPerS
			logs, least, most, n = logs+math.Log(ratio), min(least, ratio), max(most, ratio), n+1
		}
		if n != 8 {
			fail("%s to %s: %d mixes, want 8", c.from, c.to, n)
		}
		if c.from == c.to {
			if least < 0.995 || most >= 1.005 {
				fail("%s again: throughput over live is %.3f to %.3f, want 1.00", c.from, least, most)
			}
			continue
		}
		rows = append(rows, []string{c.from, c.to, fmt.Sprintf("%.2f", math.Exp(logs/float64(n))), fmt.Sprintf("%.2f", least), fmt.Sprintf("%.2f", most)})
	}
	return markdown(rows)
}
