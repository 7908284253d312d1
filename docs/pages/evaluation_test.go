package pages

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/stats"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
)

// block is the live repetitions of one mix of the evaluation.
type block struct {
	name  string // of its mix
	cells []cell // in the order of schedulerOrder; the first is what the others are compared with
	hosts []host // in the order of their first runs
}

// host is a machine of a mix, with a revision that ran there.
type host struct {
	machine string
	gpus    string      // how many of which
	first   results.Run // there, with this revision
	runs    int
}

// cell is the live repetitions of a mix under one scheduler, and the same simulated, with noise. What is not wanted of a
// cell is not simulated.
type cell struct {
	scheduler string
	live      []measured
	simulated sample
	fitted    map[string]sample // the same with profiles fitted to the runs under sa on a machine, as caserun profile fit does
}

// measured is a live run, on a machine.
type measured struct {
	results.Run
	machine string
}

// simulatedRuns are those of a cell: as many as live ones. More would make the searches of plan take long.
const simulatedRuns = 3

var schedulerOrder = []string{"sa", "cg", "schedgpu", "case-alg2", "case-alg3", "plan", "vgpu", "demand"}

// figure is a number by which runs are compared: the more the better if higher, else the less.
type figure struct {
	name   string
	of     func(results.Metrics) float64
	higher bool
}

var (
	byThroughput = figure{"throughput", func(m results.Metrics) float64 { return *m.ThroughputJobsPerS }, true}
	byTurnaround = figure{"turnaround", func(m results.Metrics) float64 { return *m.TurnaroundMeanS }, false}
)

// prediction is what a simulated node says of a cell's runs.
type prediction func(cell, figure) float64

// plain knows nothing of the hosts.
func plain(c cell, f figure) float64 { return c.simulated.median(f.of) }

// fitted has profiles fitted to the machine of each run. It is for cells that canFit.
func fitted(c cell, f figure) float64 {
	var out []float64
	for _, r := range c.live {
		out = append(out, c.fitted[r.machine].median(f.of))
	}
	return median(out)
}

// canFit reports whether sa ran on all machines of the cell.
func (c cell) canFit() bool {
	return !slices.ContainsFunc(c.live, func(r measured) bool { _, found := c.fitted[r.machine]; return !found })
}

func (c cell) values(f figure) []float64 {
	var out []float64
	for _, r := range c.live {
		out = append(out, f.of(r.Metrics))
	}
	return out
}

// evaluationPage shows the runs of docs/results/bundles/DIR, and what a simulated node makes of the same.
func evaluationPage(dir string) page {
	blocks := sync.OnceValue(func() []block { return readAll(dir, everything) })
	var tables []table
	for _, t := range []struct {
		name string
		of   func([]block) string
	}{{"machines", machinesTable}, {"cells", cellsTable}, {"ratios", ratiosTable}, {"errors", errorsTable}} {
		tables = append(tables, table{t.name, func() string { return t.of(blocks()) }})
	}
	return page{filepath.Join("docs/results", dir+".md"), tables}
}

// wanted is what is simulated of a cell.
type wanted struct{ plain, fitted bool }

func everything(string) wanted { return wanted{plain: true, fitted: true} }

// readAll has the blocks of the bundles of a directory, but for those of jobs alone and of traced runs.
func readAll(dir string, want func(scheduler string) wanted) (out []block) {
	for _, path := range must(filepath.Glob(filepath.Join("docs/results/bundles", dir, "*.tar.gz"))) {
		name := filepath.Base(path)
		if !strings.HasPrefix(name, "alone") && !strings.HasPrefix(name, "traced") {
			out = append(out, readBlocks(path, want)...)
		}
	}
	if len(out) == 0 {
		fail("%s has no runs", dir)
	}
	return out
}

// readBlocks has a block for each mix of a bundle, in the order of their names.
func readBlocks(path string, want func(string) wanted) []block {
	opened := must(bundle.Open(ctx, path))
	defer opened.Close()
	runs := must(opened.Runs(ctx, store.Filter{Status: results.Complete}))
	of := map[string][]results.Run{}
	for _, r := range runs {
		of[r.Mix] = append(of[r.Mix], r)
	}
	var out []block
	for _, mix := range slices.Sorted(maps.Keys(of)) {
		out = append(out, readBlock(opened, mixOf(mix), of[mix], want))
	}
	return out
}

func readBlock(from *bundle.Opened, mix mixes.Mix, runs []results.Run, want func(string) wanted) block {
	dir := must(os.MkdirTemp("", "pages"))
	defer os.RemoveAll(dir)
	own := must(store.Open(filepath.Join(dir, "simulated.db")))
	defer own.Close()
	b := block{name: mix.Name}
	var nodes [][]results.Device               // of the first run of each cell
	alone := map[string]map[string][]float64{} // seconds of each job under sa, by machine and command
	for _, r := range runs {
		devices := must(from.Devices(ctx, r.ID))
		if !slices.Contains(schedulerOrder, r.Scheduler) {
			fail("%s has a run under %s, which has no place in the tables", mix.Name, r.Scheduler)
		}
		i := slices.IndexFunc(b.cells, func(c cell) bool { return c.scheduler == r.Scheduler })
		if i < 0 {
			i = len(b.cells)
			c := cell{scheduler: r.Scheduler}
			if want(r.Scheduler).plain {
				c.simulated = simulate(own, mix, r, devices, profiles.Catalog())
			}
			b.cells = append(b.cells, c)
			nodes = append(nodes, devices)
		}
		jobs := must(from.Jobs(ctx, r.ID))
		machine := results.Machine(r.Mode, r.Provenance.Host, devices)
		b.cells[i].live = append(b.cells[i].live, measured{r, machine})
		b.ran(r, machine, devices)
		if r.Scheduler != "sa" {
			continue
		}
		if alone[machine] == nil {
			alone[machine] = map[string][]float64{}
		}
		for _, j := range jobs {
			if *j.Outcome == results.OK {
				alone[machine][j.Command] = append(alone[machine][j.Command], *j.EndS-*j.StartS)
			}
		}
	}
	for _, machine := range slices.Sorted(maps.Keys(alone)) {
		known, missing, _ := profiles.Catalog().Fitted(nodes[0][0].Name, alone[machine])
		if len(missing) > 0 {
			fail("%s has jobs without a profile: %q", mix.Name, missing)
		}
		for i := range b.cells {
			c := &b.cells[i]
			if c.fitted == nil {
				c.fitted = map[string]sample{}
			}
			if want(c.scheduler).fitted {
				c.fitted[machine] = simulate(own, mix, c.live[0].Run, nodes[i], known)
			}
		}
	}
	slices.SortFunc(b.cells, func(a, b cell) int {
		return cmp.Compare(slices.Index(schedulerOrder, a.scheduler), slices.Index(schedulerOrder, b.scheduler))
	})
	return b
}

// ran counts a run on its host.
func (b *block) ran(r results.Run, machine string, devices []results.Device) {
	i := slices.IndexFunc(b.hosts, func(h host) bool {
		return h.machine == machine && h.first.Provenance.Revision == r.Provenance.Revision
	})
	if i < 0 {
		i = len(b.hosts)
		b.hosts = append(b.hosts, host{machine: machine, gpus: fmt.Sprintf("%d %s", len(devices), devices[0].Name), first: r})
	}
	b.hosts[i].runs++
}

// simulate does a live run on a model of its node, repeatedly and with noise.
func simulate(db *store.Store, mix mixes.Mix, run results.Run, devices []results.Device, known profiles.Set) (out sample) {
	model := ""
	for _, m := range []string{"H100", "H200"} {
		if strings.Contains(devices[0].Name, m) {
			model = m
		}
	}
	for seed := range uint64(simulatedRuns) {
		backend, err := sim.Open(harness.Options{Node: fmt.Sprintf("sim:%dx%s", len(devices), model), MemCap: size.AmountOf(16 << 30), Workers: run.Workers, Noise: noise, Seed: 1 + seed})
		if err != nil {
			fail("run %d of %s: %v", run.ID, run.Mix, err)
		}
		if _, threads, _, err := backend.Size(); err != nil || threads != run.Provenance.Cores {
			fail("the model of run %d of %s has %d cores, and its machine had %d (%v)", run.ID, run.Mix, threads, run.Provenance.Cores, err)
		}
		o, err := harness.Execute(ctx, backend, harness.Request{Configuration: harness.Configuration{Sched: policies.With(run.Scheduler, run.Parameters), Probe: results.Lazy}, Mix: mix,
			Profiles: known, Store: db, Say: func(string, ...any) {}})
		if err != nil {
			fail("%s under %s: %v", run.Mix, run.Scheduler, err)
		}
		out = append(out, o.Run.Metrics)
	}
	return out
}

// machinesTable has a line for each machine and revision.
func machinesTable(blocks []block) string {
	type line struct {
		host
		mixes []string
	}
	var lines []line
	for _, b := range blocks {
		for _, h := range b.hosts {
			i := slices.IndexFunc(lines, func(l line) bool {
				return l.machine == h.machine && l.first.Provenance.Revision == h.first.Provenance.Revision
			})
			if i < 0 {
				i = len(lines)
				lines = append(lines, line{host: host{machine: h.machine, gpus: h.gpus, first: h.first}})
			}
			lines[i].mixes = append(lines[i].mixes, fmt.Sprintf("%s (%d)", b.name, h.runs))
		}
	}
	rows := [][]string{{"mixes (runs)", "GPUs", "cores", "revision", "begun"}}
	for _, l := range lines {
		p := l.first.Provenance
		rows = append(rows, []string{strings.Join(l.mixes, ", "), l.gpus, fmt.Sprint(p.Cores), p.Revision[:min(7, len(p.Revision))], l.first.StartedAt.Format("2006-01-02")})
	}
	return markdown(rows)
}

// cellsTable has medians, with the least and the most of several runs, of mixes that ran under several schedulers. It has
// a column of lost jobs if there are any.
func cellsTable(blocks []block) string {
	const losses = 3 // the column
	rows, losing := [][]string{{"mix", "scheduler", "runs", "jobs lost in each", "throughput, jobs/s", "mean turnaround, s"}}, false
	for _, b := range blocks {
		if len(b.cells) == 1 {
			continue
		}
		for _, c := range b.cells {
			var lost []string
			for _, r := range c.live {
				lost, losing = append(lost, fmt.Sprint(r.Jobs-r.Metrics.OK)), losing || r.Jobs > r.Metrics.OK
			}
			slices.Sort(lost)
			row := []string{b.name, c.scheduler, fmt.Sprint(len(c.live)), strings.Join(slices.Compact(lost), " or ")}
			for _, f := range []figure{byThroughput, byTurnaround} {
				v := c.values(f)
				digits := 3
				if !f.higher {
					digits = 1
				}
				shown := fmt.Sprintf("%.*f", digits, median(v))
				if len(v) > 1 {
					shown += fmt.Sprintf(" (%.*f to %.*f)", digits, slices.Min(v), digits, slices.Max(v))
				}
				row = append(row, shown)
			}
			rows = append(rows, row)
		}
	}
	if !losing {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], losses, losses+1)
		}
	}
	return markdown(rows)
}

func median(values []float64) float64 { return stats.Summarize(values, 0.95).Median }

// ratiosTable has the comparisons that the text is about. Above 1 the scheduler is better, in turnaround too.
func ratiosTable(blocks []block) string {
	rows := [][]string{{"ratio", "mix", "throughput", "simulated", "mean turnaround"}}
	for _, k := range comparisons(blocks) {
		if k.over == "sa" && k.of[0].scheduler != "case-alg3" && k.of[0].scheduler != "plan" {
			continue
		}
		ratio := k.of[0].scheduler + " over " + k.over
		for i, mix := range k.mixes {
			rows = append(rows, append([]string{ratio, mix}, k.only(i).columns()...))
		}
		if len(k.mixes) > 2 {
			rows = append(rows, append([]string{ratio, "geometric mean"}, k.columns()...))
		}
	}
	return markdown(rows)
}

// comparison is one scheduler beside another, mix by mix.
type comparison struct {
	over     string
	mixes    []string
	of, base []cell
}

// only is the comparison for one of the mixes.
func (k comparison) only(i int) comparison {
	return comparison{k.over, k.mixes[i : i+1], k.of[i : i+1], k.base[i : i+1]}
}

// comparisons are of each scheduler with the first of each mix, and of plan with case-alg3.
func comparisons(blocks []block) []comparison {
	var out []comparison
	add := func(b block, of, base cell) {
		if len(stratum(base, of, byThroughput).A) == 0 {
			return // they have not run on one machine
		}
		i := slices.IndexFunc(out, func(k comparison) bool { return k.of[0].scheduler == of.scheduler && k.over == base.scheduler })
		if i < 0 {
			i = len(out)
			out = append(out, comparison{over: base.scheduler})
		}
		k := &out[i]
		k.mixes, k.of, k.base = append(k.mixes, b.name), append(k.of, of), append(k.base, base)
	}
	for _, b := range blocks {
		for _, c := range b.cells[1:] {
			add(b, c, b.cells[0])
		}
	}
	for _, b := range blocks {
		for i, c := range b.cells {
			if i > 1 && c.scheduler == "plan" && b.cells[i-1].scheduler == "case-alg3" {
				add(b, c, b.cells[i-1])
			}
		}
	}
	return out
}

func (k comparison) columns() []string {
	shown := func(live stats.Comparison) string {
		if !live.Bounded() {
			return fmt.Sprintf("%.2f", 1+live.Change)
		}
		return fmt.Sprintf("%.2f (%.2f to %.2f)", 1+live.Change, 1+live.Low, 1+live.High)
	}
	live, simulated := k.live(byThroughput), k.simulated(byThroughput, plain)
	return []string{shown(live), fmt.Sprintf("%.2f (%s %%)", simulated, errorOf(simulated, 1+live.Change)), shown(k.live(byTurnaround))}
}

// live is the change in the geometric mean over the mixes. It is Student's interval for one mix, too.
func (k comparison) live(f figure) stats.Comparison {
	var strata []stats.Stratum
	for i := range k.of {
		strata = append(strata, stratum(k.base[i], k.of[i], f))
	}
	return stats.CompareAll([]stats.Pair{{Strata: strata}})[0]
}

// stratum has the values of a mix under both schedulers. Higher values are better. If the mix ran on several machines, B has the ratios
// within each repetition, and A has as many ones. So no value has what the machines differ in.
func stratum(base, of cell, f figure) stats.Stratum {
	if !f.higher {
		base, of = of, base
	}
	machine := base.live[0].machine
	elsewhere := func(r measured) bool { return r.machine != machine }
	if !slices.ContainsFunc(base.live, elsewhere) && !slices.ContainsFunc(of.live, elsewhere) {
		return stats.Stratum{A: base.values(f), B: of.values(f)}
	}
	var s stats.Stratum
	for _, b := range base.live {
		for _, o := range of.live {
			if b.machine == o.machine && b.Repetition == o.Repetition {
				s.A, s.B = append(s.A, 1), append(s.B, f.of(o.Metrics)/f.of(b.Metrics))
			}
		}
	}
	return s
}

func (k comparison) simulated(f figure, of prediction) float64 {
	logs := 0.0
	for i := range k.of {
		quotient := of(k.of[i], f) / of(k.base[i], f)
		if !f.higher {
			quotient = 1 / quotient
		}
		logs += math.Log(quotient)
	}
	return math.Exp(logs / float64(len(k.of)))
}

// errorsTable has the means of the absolute errors over the mixes. Its last three columns are without sa, and only of cells whose
// profiles can be fitted to runs under sa. If there are none, it has no such columns.
func errorsTable(blocks []block) string {
	rows := [][]string{{"what", "cells", "mean absolute error, %", "worst, %", "cells beside runs of sa", "mean absolute error, %", "with fitted profiles, %"}}
	for _, f := range []figure{byThroughput, byTurnaround} {
		var all, same, fits []float64
		for _, b := range blocks {
			for _, c := range b.cells {
				e := func(of prediction) float64 { return of(c, f)/median(c.values(f)) - 1 }
				all = append(all, e(plain))
				if c.canFit() && c.scheduler != "sa" {
					same, fits = append(same, e(plain)), append(fits, e(fitted))
				}
			}
		}
		rows = append(rows, errorsRow(f.name, all, same, fits))
	}
	for _, f := range []figure{byThroughput, byTurnaround} {
		var all, same, fits []float64
		for _, k := range comparisons(blocks) {
			for i := range k.of {
				one := k.only(i)
				e := func(of prediction) float64 { return one.simulated(f, of)/(1+one.live(f).Change) - 1 }
				all = append(all, e(plain))
				if k.of[i].canFit() && k.base[i].canFit() {
					same, fits = append(same, e(plain)), append(fits, e(fitted))
				}
			}
		}
		rows = append(rows, errorsRow("ratio of "+f.name, all, same, fits))
	}
	if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[4] != "0" }) {
		for i := range rows {
			rows[i] = rows[i][:4]
		}
	}
	return markdown(rows)
}

func errorsRow(what string, all, same, fits []float64) []string {
	worst := slices.MaxFunc(all, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	return []string{what, fmt.Sprint(len(all)), meanSize(all), fmt.Sprintf("%+.0f", 100*worst), fmt.Sprint(len(fits)), meanSize(same), meanSize(fits)}
}

// meanSize is the mean of absolute values, in percent.
func meanSize(errors []float64) string {
	sum := 0.0
	for _, e := range errors {
		sum += math.Abs(e)
	}
	return fmt.Sprintf("%.1f", 100*sum/float64(len(errors)))
}
