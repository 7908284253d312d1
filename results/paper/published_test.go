package paper

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

func TestEveryTableIsComplete(t *testing.T) {
	for _, c := range []struct {
		source, system string
		count          int
		unit           string
		sum            float64 // of the values as the paper prints them
	}{
		{"Table 3", "2xP100", 16, "fraction", 1.79},
		{"Table 3", "4xV100", 16, "fraction", 3.39},
		{"Table 4", "2xP100", 8, "ratio", 29.8},
		{"Table 4", "4xV100", 8, "ratio", 22.7},
		{"Table 6", "4xV100", 18, "fraction", 0.389},
		{"Table 7", "2xP100", 8, "jobs/s", 0.696},
		{"Table 7", "4xV100", 16, "jobs/s", 3.324},
		{"Table 8", "4xV100", 4, "jobs/s", 0.185},
		{"section 5.2.4", "2xP100", 1, "s", 236},
		{"section 5.2.4", "4xV100", 1, "s", 122},
	} {
		values, err := Case().Published(c.source, c.system)
		if err != nil {
			t.Error(err)
			continue
		}
		sum := 0.0
		for _, v := range values {
			sum += *v.Value
			if v.Unit != c.unit {
				t.Errorf("%s %s %s: unit %q, want %q", c.source, c.system, v.Workload, v.Unit, c.unit)
			}
		}
		if len(values) != c.count || sum < c.sum-1e-9 || sum > c.sum+1e-9 {
			t.Errorf("%s on %s: %d values with sum %.4f, want %d with %.4f", c.source, c.system, len(values), sum, c.count, c.sum)
		}
	}
}

func TestPublishedOfNothingIsAnError(t *testing.T) {
	if _, err := Case().Published("Table 9", "4xV100"); err == nil || !strings.Contains(err.Error(), `"Table 9"`) {
		t.Errorf("error %v, want one that names Table 9", err)
	}
}

// What a paper's two files name is there: items, systems, metrics, workloads, schedulers.
func TestFilesOfPapersFit(t *testing.T) {
	for _, name := range Names() {
		p, err := parsePaper(name)
		if err != nil {
			t.Fatal(err)
		}
		fail := func(format string, args ...any) { t.Errorf(name+": "+format, args...) }
		used := map[string]bool{}
		scheduler := func(text string) {
			if _, err := cluster.ParseScheduler(text, 4, policies.Parse); err != nil {
				fail("%v", err)
			}
		}
		for _, s := range p.Statements {
			used[s.Metric] = true
			if p.Metrics[s.Metric] == (Metric{}) || s.Most == nil && s.Least == nil || s.Says == "" || s.Source == "" || len(s.Workloads) == 0 || len(s.Schedulers) == 0 {
				fail("%+v", s)
			}
			for _, workload := range slices.Concat(s.Workloads, s.Than) {
				_, known := p.Workloads[workload]
				if _, err := mixes.Lookup(workload); !known && err != nil {
					fail("%s: no workload %s", s.Says, workload)
				}
				used[workload] = true
			}
			for _, system := range s.Systems {
				if !slices.Contains(p.SystemNames(), system) {
					fail("%s: no system %s", s.Says, system)
				}
			}
		}
		for _, s := range p.Systems {
			if _, err := path.Match(s.Mixes, ""); err != nil {
				fail("%s: %v", s.Name, err)
			}
		}
		for _, v := range p.values {
			used[v.Metric], used[v.Workload] = true, true
			at := slices.IndexFunc(p.Items, func(item Item) bool { return item.Source == v.Item })
			m, known := p.Metrics[v.Metric]
			switch {
			case at < 0 || !slices.Contains(p.Items[at].Systems, v.System):
				fail("no item %s on %s", v.Item, v.System)
			case !known:
				fail("no metric %s of %s", v.Metric, v.Item)
			case !slices.Contains([]string{fraction, "ratio", "s", "jobs/s", "bytes", "faults", "swaps", "runs"}, v.Unit):
				fail("%s has the unit %s", v.Item, v.Unit)
			case v.Value == nil && m.Over != "" && p.Items[at].Bars.Over == "" && p.Workloads[v.Workload].Base == "":
				fail("%s of %s in %s has no value, and no bar", v.Metric, v.Workload, v.Item)
			case v.Source != v.Item && !regexp.MustCompile(`^(section|slide|abstract)`).MatchString(v.Source):
				fail("%s is from %q", v.Item, v.Source)
			case m.Of != "" && m.Of != stopOverhead:
				scheduler(strings.TrimSuffix(v.Scheduler, inTurn))
			}
		}
		for key, m := range p.Metrics {
			own := slices.Contains([]string{kernelSlowdown, "mean_utilization", "peak_utilization", "memory_utilization", "job_time", "job_spread", "page_faults", "time_of_all", "stuck", stopOverhead}, m.Of)
			own = own || qualities[m.Of] != nil
			if _, known := portionsFigure(m.Of); known {
				own = true
			}
			ofRuns := slices.ContainsFunc(results.AllMetrics(), func(of results.Metric) bool { return of.Name == m.Of })
			if !used[key] || (m.Of != "") == (m.Why != "") || m.Of != "" && !own && !ofRuns {
				fail("metric %s: %+v, of a number: %v", key, m, used[key])
			}
			if m.Over != "" {
				scheduler(strings.TrimSuffix(m.Over, inTurn))
			}
		}
		for key, w := range p.Workloads {
			if !used[key] || takes[w.Take] == nil && w.Take != "first" && w.Take != "" || len(w.Mixes) == 0 {
				fail("workload %s: %+v, of a number: %v", key, w, used[key])
			}
			for _, e := range p.entries(key) {
				if e.scheduler != "" {
					scheduler(e.scheduler)
				}
			}
		}
		for _, item := range p.Items {
			for _, system := range item.Systems {
				if !slices.Contains(p.SystemNames(), system) || len(p.of(item.Source, system)) == 0 {
					fail("%s has no number on %s", item.Source, system)
				}
			}
			drawn := func(v Value) bool { return v.Item == item.Source && p.Metrics[v.Metric].Over == item.Bars.Over }
			if item.Bars.Over != "" && !slices.ContainsFunc(p.values, drawn) {
				fail("%s has no bars", item.Source)
			}
			for _, text := range slices.Concat(item.Curves, item.Bars.Schedulers, item.Others.Over) {
				scheduler(strings.TrimSuffix(text, inTurn))
			}
		}
		for _, s := range p.Sweeps {
			for system, texts := range s.Schedulers {
				if !slices.Contains(p.SystemNames(), system) {
					fail("a sweep on %s", system)
				}
				for _, text := range texts {
					scheduler(text)
				}
			}
		}
	}
}
