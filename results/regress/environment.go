package regress

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/stats"
)

// Difference is a property of the environment in which two sides differ.
type Difference struct {
	Kind string // driver, GPU, memory for jobs, clocks, throttling, binary, host, environment, limits, jobs, settings, version
	A, B string
}

func (d Difference) String() string { return fmt.Sprintf("different %s: %s and %s", d.Kind, d.A, d.B) }

// clockTolerance is the relative difference below which clocks count as equal. NVML is read
// once at each end of a run, but the clock changes with the load.
const clockTolerance = 0.03

// memoryTolerance is the relative difference below which the memory for jobs counts as equal,
// because the MPS server and other processes take a little of it.
const memoryTolerance = 0.05

// environment compares what can change a figure without a change of caserun. A simulated run
// depends only on its jobs and its settings.
func environment(a, b []Observation) []Difference {
	var out []Difference
	add := func(kind string, text func(Observation) []string) {
		if x, y := distinct(a, text), distinct(b, text); x != y {
			out = append(out, Difference{kind, x, y})
		}
	}
	measured := func(o Observation) bool { return o.Mode == results.Live }
	if slices.ContainsFunc(a, measured) && slices.ContainsFunc(b, measured) {
		add("driver", func(o Observation) []string {
			return []string{known(o.Provenance.Driver) + " with CUDA " + known(o.Provenance.CUDA)}
		})
		add("GPU", gpus)
		if x, y := memory(a), memory(b); math.Abs(y/x-1) > memoryTolerance {
			out = append(out, Difference{"memory for jobs", gib(x), gib(y)})
		}
		if x, y := clock(a), clock(b); math.Abs(y/x-1) > clockTolerance {
			out = append(out, Difference{"clocks", mhz(x), mhz(y)})
		}
		add("throttling", throttling)
		add("binary", binaries)
		add("host", func(o Observation) []string {
			p := o.Provenance
			return []string{fmt.Sprintf("%s, %d cores, kernel %s", p.CPU, p.Cores, p.Kernel)}
		})
		if slices.ContainsFunc(a, recorded) && slices.ContainsFunc(b, recorded) {
			out = append(out, variables(a, b)...)
			add("limits", hostLimits)
		}
	}
	if d, differ := jobs(a, b); differ {
		out = append(out, d)
	}
	x, y := settings(a), settings(b)
	if keys := differing(x, y); len(keys) > 0 {
		out = append(out, Difference{"settings", showSettings(x, keys), showSettings(y, keys)})
	}
	return out
}

// recorded reports whether a run's record has its surroundings, which those of earlier versions lack.
func recorded(o Observation) bool {
	_, known := results.SurroundingsOf(o.Run)
	return known
}

// variables compares the variables of the callers' environments, and names those that differ.
func variables(a, b []Observation) []Difference {
	of := func(runs []Observation, name string) string {
		return distinct(runs, func(o Observation) []string {
			s, known := results.SurroundingsOf(o.Run)
			value, set := s.Environment[name]
			switch {
			case !known:
				return nil
			case !set:
				return []string{"without " + name}
			}
			return []string{name + "=" + value}
		})
	}
	names := map[string]bool{}
	for _, o := range slices.Concat(a, b) {
		s, _ := results.SurroundingsOf(o.Run)
		for name := range s.Environment {
			names[name] = true
		}
	}
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x, y := of(a, name), of(b, name); x != y {
			out = append(out, Difference{"environment", x, y})
		}
	}
	return out
}

// hostLimits are what the host allowed a run.
func hostLimits(o Observation) []string {
	s, known := results.SurroundingsOf(o.Run)
	if !known {
		return nil
	}
	var parts []string
	say := func(limited bool, format string, args ...any) {
		if limited {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(s.CPUs > 0, "%d processors", s.CPUs)
	say(s.CPUQuota > 0, "a CPU quota of %g", s.CPUQuota)
	say(s.MemoryBytes > 0, "%s of memory", gib(float64(s.MemoryBytes)))
	say(s.AddressSpaceBytes > 0, "%s of address space", gib(float64(s.AddressSpaceBytes)))
	return []string{strings.Join(parts, ", ")}
}

// Environment compares the environments of two groups of runs, as comparisons do.
func Environment(a, b []Observation) []Difference {
	return environment(withSettings(a), withSettings(b))
}

func withSettings(runs []Observation) []Observation {
	out := slices.Clone(runs)
	for i := range out {
		out[i].settings = results.SettingsOf(out[i].Run)
	}
	return out
}

// versions compares the versions of caserun. A nightly run of caserun's own changes varies the
// version on purpose, so it is not part of the environment.
func versions(a, b []Observation) []Difference {
	text := func(o Observation) []string { return []string{o.Provenance.Version + " " + o.Provenance.Revision} }
	if x, y := distinct(a, text), distinct(b, text); x != y {
		return []Difference{{"version", x, y}}
	}
	return nil
}

func distinct(runs []Observation, text func(Observation) []string) string {
	var found []string
	for _, o := range runs {
		found = append(found, text(o)...)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		return "none"
	}
	return strings.Join(found, "; ")
}

func known(s *string) string {
	if s == nil {
		return "unknown"
	}
	return *s
}

// jobs compares the jobs of two mixes of the same name and size, because two files can have
// mixes of the same name.
func jobs(a, b []Observation) (Difference, bool) {
	if len(a) == 0 || len(b) == 0 || a[0].Mix != b[0].Mix || a[0].Jobs != b[0].Jobs {
		return Difference{}, false // said as another batch
	}
	list := func(o Observation) []string { return []string{o.Commands} }
	x, y := distinct(a, list), distinct(b, list)
	if x == "" || y == "" {
		return Difference{}, false
	}
	if x == y {
		return definitions(a, b)
	}
	d := Difference{"jobs", foreign(a, b), foreign(b, a)}
	if d.A == distinct(a, source) && d.B == distinct(b, source) {
		d.B += " with the same commands in another order or number"
	}
	return d, true
}

// definitions compares how jobs with the same commands were defined. It compares only
// definitions from one build.
func definitions(a, b []Observation) (Difference, bool) {
	planner := func(o Observation) []string { return []string{o.PlannedBy} }
	said := func(o Observation) []string { return []string{o.Definition} }
	x, y := distinct(a, said), distinct(b, said)
	if x == y || x == "" || y == "" || distinct(a, planner) != distinct(b, planner) {
		return Difference{}, false
	}
	return Difference{"jobs", fmt.Sprintf("%s (%s)", distinct(a, source), x), fmt.Sprintf("%s (%s), with the same commands", distinct(b, source), y)}, true
}

// foreign names the source of the runs' mix and the first command that others lack.
func foreign(runs, others []Observation) string {
	from := distinct(runs, source)
	known := map[string]bool{}
	for _, o := range others {
		for command := range strings.SplitSeq(o.Commands, "\n") {
			known[command] = true
		}
	}
	for _, o := range runs {
		for command := range strings.SplitSeq(o.Commands, "\n") {
			if !known[command] {
				return from + " with " + command
			}
		}
	}
	return from
}

func source(o Observation) []string { return []string{o.MixSource} }

func mixes(all []Observation) string {
	commands := map[int64]string{}
	for _, o := range all {
		commands[o.ID] = o.Commands
	}
	return results.SeveralMixes(Rows(all), commands)
}

func severalSettings(all []Observation) string {
	var each []map[string]string
	for _, o := range all {
		each = append(each, o.settings)
	}
	return results.DifferentSettings(each)
}

func machines(all []Observation) string {
	devices := map[int64][]results.Device{}
	for _, o := range all {
		devices[o.ID] = o.Devices
	}
	return results.SeveralMachines(Rows(all), devices)
}

func gpus(o Observation) []string {
	var out []string
	for _, d := range o.Devices {
		out = append(out, fmt.Sprintf("%s %s (%d SMs)", d.Name, d.UUID, d.SMs))
	}
	return out
}

// memory returns the median over runs and devices of the bytes that jobs may use; NaN if
// unknown.
func memory(runs []Observation) float64 {
	var found []float64
	for _, o := range runs {
		for _, d := range o.Devices {
			found = append(found, float64(d.CapacityBytes))
		}
	}
	return stats.Summarize(found, 1-stats.DefaultAlpha).Median
}

func gib(bytes float64) string { return fmt.Sprintf("%.1f GiB", bytes/(1<<30)) }

// clock returns the median over runs and devices of the higher SM clock of start and end; NaN
// if unknown.
func clock(runs []Observation) float64 {
	var found []float64
	for _, o := range runs {
		for _, d := range o.Devices {
			highest := math.NaN()
			for _, hz := range []*int64{d.SMClockStartHz, d.SMClockEndHz} {
				if hz != nil && !(float64(*hz) <= highest) {
					highest = float64(*hz)
				}
			}
			if !math.IsNaN(highest) {
				found = append(found, highest)
			}
		}
	}
	return stats.Summarize(found, 1-stats.DefaultAlpha).Median
}

func mhz(hz float64) string { return fmt.Sprintf("%.0f MHz", hz/1e6) }

func throttling(o Observation) []string {
	var out []string
	for _, d := range o.Devices {
		out = append(out, d.Throttling()...)
	}
	return out
}

// binaries returns each program's name with the beginning of its hash, but without its
// directory, which does not matter.
func binaries(o Observation) []string {
	var hashes map[string]string
	if json.Unmarshal([]byte(o.Provenance.Binaries), &hashes) != nil {
		return nil // a run of an earlier version may have none
	}
	var out []string
	for path, hash := range hashes {
		out = append(out, filepath.Base(path)+" "+hash[:min(len(hash), 12)])
	}
	return out
}

// settings returns the distinct values of each setting over all runs.
func settings(runs []Observation) map[string]string {
	found := map[string][]string{}
	for _, o := range runs {
		for key, value := range o.settings {
			found[key] = append(found[key], value)
		}
	}
	out := map[string]string{}
	for key, values := range found {
		slices.Sort(values)
		out[key] = strings.Join(slices.Compact(values), "|")
	}
	return out
}

// differing returns the keys whose values differ. A key that one side lacks is not compared,
// because that side's version of caserun did not have it.
func differing(a, b map[string]string) []string {
	var out []string
	for key, v := range a {
		if w, both := b[key]; both && v != w {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func showSettings(values map[string]string, keys []string) string {
	var out []string
	for _, key := range keys {
		out = append(out, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(out, " ")
}
