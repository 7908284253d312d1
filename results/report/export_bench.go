package report

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// ExportBench writes the selected runs that are complete in the Go benchmark format
// (https://go.dev/design/14313-benchmark-format), a line for each run that is a sample of its
// own and not doubtful. It returns how many it wrote, and how many it left out because they are not measurements.
// Lines that begin with # say what runs are worth; readers of the format ignore them. What
// identifies an arm is in the name, as /key=value, so that benchstat compares by it
// (-col /sched). What must be alike for numbers to compare is configuration, by which
// benchstat separates tables.
func ExportBench(ctx context.Context, s *store.Store, w io.Writer, f store.Filter) (written, left int, err error) {
	runs, err := s.RunsWithJobs(ctx, f)
	if err != nil {
		return 0, 0, err
	}
	devices, err := s.DevicesOf(ctx, f)
	if err != nil {
		return 0, 0, err
	}
	out := bufio.NewWriter(w)
	measures := slices.DeleteFunc(results.AllMetrics(), func(m results.Metric) bool { return m.Bench == "" })
	for _, m := range measures {
		better := "lower"
		if m.HigherIsBetter {
			better = "higher"
		}
		fmt.Fprintf(out, "Unit %s better=%s\n", m.Bench, better)
	}
	copies, names := results.Copies(runs), results.NamesOf(runs)
	noiseFree := slices.ContainsFunc(runs, results.NoiseFree)
	_, again, doubtful := samplesOf(runs)
	for _, says := range samplesNotes(noiseFree, again, doubtful) {
		fmt.Fprintf(out, "# %s\n", says)
	}
	var current map[string]string
	for i, r := range runs {
		if copies[i] || r.Doubts != "" {
			continue
		}
		if r.Status != results.Complete || r.Metrics.MakespanS == nil {
			left++
			continue
		}
		current = benchConfiguration(out, current, environment(r, devices[r.ID]))
		fmt.Fprintf(out, "%s 1", benchName(r, names))
		for _, m := range measures {
			if v := measured(m, r); v != nil {
				fmt.Fprintf(out, " %s %s", strconv.FormatFloat(*v, 'g', -1, 64), m.Bench)
			}
		}
		fmt.Fprintln(out)
		written++
	}
	if err := out.Flush(); err != nil {
		return 0, 0, fmt.Errorf("write the Go benchmark format: %w", err)
	}
	return written, left, nil
}

// measured is a metric's value on a run's line. A run in which no job ended ok has its throughput, which is 0, and its
// crashes alone.
func measured(m results.Metric, r results.Run) *float64 {
	if r.Metrics.OK == 0 && !strings.HasPrefix(m.Unit, "jobs") {
		return nil
	}
	return m.Of(r)
}

// benchName is the same for the repetitions of an arm, and differs between arms. The
// node is last, because Go reads a number after the last dash as the number of
// processors, and no node's name ends so.
func benchName(r results.Run, names results.Names) string {
	name := fmt.Sprintf("BenchmarkMix/mix=%s/jobs=%d/sched=%s", benchWord(r.Mix), r.Jobs, benchWord(r.Scheduler))
	if r.Parameters != "" {
		name += "/params=" + benchWord(r.Parameters)
	}
	if r.Probe != results.Lazy {
		name += "/probe=" + r.Probe.String()
	}
	if chosen := names.Chosen(results.ArmOf(r)); chosen != "" {
		name += "/arm=" + benchWord(chosen)
	}
	return name + "/node=" + benchWord(r.Node)
}

// benchWord makes text one word of a name. A word ends at a slash or a space, so these
// become %2F and %20, as in a URL.
func benchWord(s string) string {
	var out strings.Builder
	for len(s) > 0 {
		c, size := utf8.DecodeRuneInString(s)
		if c == '/' || c == '%' || c == utf8.RuneError || unicode.IsSpace(c) || !unicode.IsPrint(c) {
			for _, b := range []byte(s[:size]) {
				fmt.Fprintf(&out, "%%%02X", b)
			}
		} else {
			out.WriteRune(c)
		}
		s = s[size:]
	}
	return out.String()
}

// environment is what must be alike for the numbers of two runs to compare: keys and
// values, in the order in which they are written.
func environment(r results.Run, devices []results.Device) [][2]string {
	out := [][2]string{
		{"simulated", strconv.FormatBool(r.Mode == results.Simulated)},
		{"traced", strconv.FormatBool(r.Traced)},
		{"suite", r.Suite},
	}
	if names := DeviceNames(devices); names != "" {
		out = append(out, [2]string{"gpu", names})
	}
	if r.Mode == results.Live {
		out = append(out, [2]string{"cpu", r.Provenance.CPU}, [2]string{"driver", value(r.Provenance.Driver)},
			[2]string{"cuda", value(r.Provenance.CUDA)})
	}
	settings := configured(r)
	for _, key := range []string{"mem-cap", "swap", "sm-cap", "slow", "no-mps", "guard", "sim-noise", "workers", "profiles", "history"} {
		if v, set := settings[key]; set {
			out = append(out, [2]string{key, v})
		}
	}
	return slices.DeleteFunc(out, func(kv [2]string) bool { return kv[1] == "" })
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// configured gives the settings of a run that differ from zero.
func configured(r results.Run) map[string]string {
	out := map[string]string{}
	for key, value := range results.Configuration(r) {
		if value != nil && value != "" && value != false && value != 0.0 {
			out[key] = fmt.Sprint(value)
		}
	}
	return out
}

// benchConfiguration writes the lines that change the configuration from old to wanted,
// and returns wanted.
func benchConfiguration(w io.Writer, old map[string]string, wanted [][2]string) map[string]string {
	now := map[string]string{}
	var changes []string
	for _, kv := range wanted {
		key, v := kv[0], oneLine(kv[1])
		now[key] = v
		if was, had := old[key]; !had || was != v {
			changes = append(changes, key+": "+v)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if _, has := now[key]; !has {
			changes = append(changes, key+":")
		}
	}
	if len(changes) > 0 {
		fmt.Fprintf(w, "\n%s\n\n", strings.Join(changes, "\n"))
	}
	return now
}
