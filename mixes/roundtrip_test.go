package mixes

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/internal/input"
)

func TestCatalogRoundTrips(t *testing.T) {
	for _, m := range Catalog() {
		checkRoundTrip(t, m)
	}
}

func TestAnyMixRoundTrips(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) { checkRoundTrip(rt, anyMix(rt)) })
}

// checkRoundTrip writes m and loads it from a file.
func checkRoundTrip(t rapid.TB, m Mix) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteYAML(&b, m); err != nil {
		t.Fatalf("%+v: %v\n%s", m, err, b.String())
	}
	dir, err := os.MkdirTemp("", "mixes")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "mix.yaml")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path, suiteOf("hotspot", "gaussian"))
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if back.Name != m.Name || back.Description != m.Description || back.Ratio != m.Ratio || back.Source != path || back.OpenLoad() != m.OpenLoad() ||
		!slices.EqualFunc(back.Jobs, m.Jobs, Job.equal) {
		t.Fatalf("wrote %+v\n read %+v\n%s", m, back, b.String())
	}
}

func anyMix(t *rapid.T) Mix {
	m := Mix{Name: label().Draw(t, "name"), Description: text().Draw(t, "description")}
	if strings.TrimSpace(m.Description) == "" { // which no file has
		m.Description = ""
	}
	if rapid.Bool().Draw(t, "has ratio") {
		m.Ratio = Ratio{rapid.IntRange(0, 9).Draw(t, "large"), rapid.IntRange(1, 9).Draw(t, "small")}.String()
	}
	group := rapid.IntRange(0, 2).Draw(t, "first group")
	for range rapid.IntRange(1, 5).Draw(t, "jobs") {
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			j := anyJob(t)
			j.Group = group
			m.Jobs = append(m.Jobs, j)
		}
		group += rapid.IntRange(0, 2).Draw(t, "groups between")
	}
	if group == 0 {
		switch rapid.SampledFrom([]string{"", "at", "every", "poisson", "seed", "trace"}).Draw(t, "arrivals") {
		case "at":
			for i, at := range slices.Sorted(slices.Values(rapid.SliceOfN(rapid.Int64Range(0, int64(MaxArrival)), len(m.Jobs), len(m.Jobs)).Draw(t, "times"))) {
				m.Jobs[i].At = time.Duration(at)
			}
		case "every":
			m.Arrivals = &Arrivals{Every: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "every"))}
		case "poisson":
			m.Arrivals = &Arrivals{Poisson: "0.5/s"}
		case "seed":
			m.Arrivals = &Arrivals{Poisson: "30/m", Seed: new(rapid.Uint64().Draw(t, "seed"))}
		case "trace":
			m.Jobs = m.Jobs[:1]
			m.Arrivals = &Arrivals{Trace: "testdata/traces/good.csv", Column: "submitted"}
		}
	}
	if rapid.Bool().Draw(t, "users") {
		credits := map[string]int{}
		users := rapid.SliceOfNDistinct(rapid.OneOf(label(), rapid.SampledFrom([]string{"1", "true", "null", "a: b"})), 1, 3, rapid.ID[string]).Draw(t, "names")
		for _, user := range users {
			credits[user] = rapid.IntRange(0, maxCredits).Draw(t, "credits")
		}
		for i := range m.Jobs {
			j := &m.Jobs[i]
			j.User = rapid.SampledFrom(append(users, "")).Draw(t, "user")
			j.Credits = credits[j.User]
		}
	}
	if rapid.Bool().Draw(t, "repeat the last") {
		m.Jobs = append(m.Jobs, m.Jobs[len(m.Jobs)-1].clone())
	}
	return m
}

func anyJob(t *rapid.T) Job {
	j := rapid.SampledFrom(append(Jobs(), builtin().darknet...)).Draw(t, "catalog job").clone()
	if rapid.Bool().Draw(t, "own") {
		j = Job{
			Name:    label().Draw(t, "job name"),
			Program: rapid.OneOf(rapid.SampledFrom(append(SuitePrograms(), "hotspot")), rapid.Map(line(), func(s string) string { return "./" + s })).Draw(t, "program"),
			Args:    rapid.SliceOfN(text(), 0, 4).Draw(t, "args"),
			Stdin:   place().Draw(t, "stdin"),
			Footprint: Footprint{
				rapid.Int64Range(0, 1<<45).Draw(t, "bytes"),
				rapid.Uint64Range(0, 1<<40).Draw(t, "blocks"),
				rapid.Uint32Range(0, maxThreadsPerBlock).Draw(t, "threads"),
			},
		}
	}
	if rapid.Bool().Draw(t, "settings") {
		j.Dir = place().Draw(t, "dir")
		j.Env = rapid.Map(rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Z_]{1,8}`), 0, 3, rapid.ID[string]), func(keys []string) []string {
			for i := range keys {
				keys[i] += "=" + text().Draw(t, "value")
			}
			return keys
		}).Draw(t, "env")
		j.Priority = rapid.IntRange(0, maxPriority).Draw(t, "priority")
		j.Isolate, j.Pin = rapid.Bool().Draw(t, "isolate"), rapid.Bool().Draw(t, "pin")
		j.CheckStatus = rapid.IntRange(0, maxExitStatus).Draw(t, "check status")
		j.KnownFault = rapid.Bool().Draw(t, "faults")
		j.Long, j.Computes = rapid.Bool().Draw(t, "long"), rapid.Bool().Draw(t, "computes")
		j.UntilOthersEnd = rapid.Bool().Draw(t, "until others end")
		j.Restartable = rapid.SampledFrom([]*bool{nil, new(false), new(true)}).Draw(t, "restartable")
		j.RestartKernels = rapid.SampledFrom([][]string{nil, {"sweep"}, {"a", "_b2"}}).Draw(t, "restart_kernels")
		j.Timeout = time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "timeout"))
		if rapid.Bool().Draw(t, "waits") {
			j.Wait = new(time.Duration(rapid.Int64Range(0, int64(maxWait/time.Millisecond)).Draw(t, "wait")) * time.Millisecond)
		}
		j.MaxWait = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(maxWait)).Draw(t, "max wait"))
		j.Deadline = time.Duration(rapid.Int64Range(0, int64(maxDeadline)).Draw(t, "deadline"))
		if j.Footprint.Bytes > 0 && rapid.Bool().Draw(t, "declared") {
			j.Binding = BindDeclared
			if !j.Pin {
				j.GPUs = rapid.SampledFrom([]int{0, 2, maxGPUs}).Draw(t, "gpus")
			}
		}
		if !j.Pin && j.GPUs == 0 {
			j.Ranks = rapid.SampledFrom([]int{0, 1, 2, MaxRanks}).Draw(t, "ranks")
			if j.Ranks > 1 {
				j.Restartable = nil
			}
		}
		if j.Ranks == 0 && j.GPUs == 0 && !j.UntilOthersEnd {
			j.Portions = rapid.SampledFrom([]int{0, 1, 2, MaxPortions}).Draw(t, "portions")
		}
		if !j.Isolate && j.GPUs == 0 {
			j.Share = rapid.SampledFrom([]float64{0, LeastShare, 0.3, 1}).Draw(t, "share")
		}
	}
	if rapid.Bool().Draw(t, "profiled") {
		j.Profile = anyProfile(t)
		j.Footprint = stated(j.Footprint, j.Profile)
	} else if rapid.Bool().Draw(t, "listed") {
		j.Steps = label().Draw(t, "steps")
		if rapid.Bool().Draw(t, "without a program") {
			j.Program, j.Args, j.Stdin = "", nil, ""
		}
	}
	j.Class = classOf(j.Footprint.Bytes)
	return j
}

func anyProfile(t *rapid.T) *Profile {
	duration := func(what string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(maxPhase)).Draw(t, what))
	}
	p := &Profile{Before: 1 + duration("before")/2, After: duration("after"), Rounds: rapid.IntRange(0, maxRounds).Draw(t, "rounds"), Exponential: rapid.Bool().Draw(t, "exponential")}
	for range rapid.IntRange(1, 3).Draw(t, "phases") {
		phase := Phase{Host: duration("host"), Kernel: duration("kernel"), CopyIn: rapid.Int64Range(0, 1<<45).Draw(t, "in"),
			CopyOut: rapid.Int64Range(0, 1<<45).Draw(t, "out"), Kernels: Footprint{Bytes: rapid.Int64Range(0, 1<<45).Draw(t, "held")}}
		if rapid.Bool().Draw(t, "grid") {
			phase.Kernels.Blocks = rapid.Uint64Range(1, 1<<40).Draw(t, "phase blocks")
			phase.Kernels.ThreadsPerBlock = rapid.Uint32Range(1, maxThreadsPerBlock).Draw(t, "phase threads")
		}
		p.Phases = append(p.Phases, phase)
	}
	return p
}

// text generates any text without NUL, which an argument vector cannot contain.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "null", "~", "-", "---", "- a", "a: b", "#", "a #b", "true", "0x10", "*a", "&a", "!t", "<<",
			"{", "[a]", "a,b", "'", `"`, `\`, "|", ">", "%", "@", "`", " a ", "\n", "a\nb", "\t", "\r\n", ".inf", "é", "\u2028", "\ufeff", "\x7f", "\U0001F600"}),
		rapid.Map(rapid.String(), func(s string) string { return strings.ReplaceAll(s, "\x00", "") }),
		rapid.StringMatching(`[-a-z0-9./=x]{1,12}`),
	)
}

// line generates any text without control characters.
func line() *rapid.Generator[string] {
	return rapid.Map(text(), func(s string) string { return keep(s, func(c rune) bool { return !unicode.IsControl(c) }) })
}

// place is a line in which something can be seen, or empty.
func place() *rapid.Generator[string] {
	return rapid.Map(line(), func(s string) string {
		if strings.TrimSpace(s) == "" {
			return ""
		}
		return s
	})
}

func label() *rapid.Generator[string] {
	return rapid.Map(text(), func(s string) string {
		s = input.Name(strings.TrimSpace(keep(s, unicode.IsPrint)))
		if s == "" {
			return "x"
		}
		return s
	})
}

// keep is what stays of a text.
func keep(s string, stays func(rune) bool) string {
	return strings.Map(func(c rune) rune {
		if stays(c) {
			return c
		}
		return -1
	}, s)
}

func TestWriteYAMLForm(t *testing.T) {
	isolated := catalogJob(t, "srad_v2-16384")
	isolated.Isolate, isolated.KnownFault = true, true
	needle := catalogJob(t, "needle-32768")
	m := Mix{Name: "two words", Ratio: "2:1", Jobs: []Job{
		needle, needle, isolated,
		catalogJob(t, "bfs-32M"),
		{Name: "own", Program: "./own", Args: []string{"-n", "5", "a b"}, Footprint: Footprint{Bytes: 2 << 30}, Class: ClassSmall},
		{Name: "hotspot", Program: "hotspot", Group: 2},
	}}
	const want = `name: "two words"
ratio: "2:1"
jobs:
  - job: needle-32768
    count: 2
  - job: srad_v2-16384
    isolate: true
    faults: known
  - bfs-32M
  - name: own
    program: ./own
    args: [-n, 5, "a b"]
    memory: 2GiB
  - name: hotspot
    program: hotspot
    group: 2
`
	var b bytes.Buffer
	if err := WriteYAML(&b, m); err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestWriteYAMLRefuses(t *testing.T) {
	job := Job{Name: "x", Program: "./x"}
	with := func(change func(*Job)) Mix {
		j := job
		change(&j)
		return Mix{Name: "m", Jobs: []Job{j}}
	}
	for name, m := range map[string]Mix{
		"no jobs":         {Name: "m"},
		"no name":         {Jobs: []Job{job}},
		"bad ratio":       {Name: "m", Ratio: "1", Jobs: []Job{job}},
		"loose ratio":     {Name: "m", Ratio: "03:1", Jobs: []Job{job}},
		"no program":      with(func(j *Job) { j.Program = "" }),
		"groups mixed":    {Name: "m", Jobs: []Job{{Name: "x", Program: "./x", Group: 1}, job}},
		"wrong class":     with(func(j *Job) { j.Class = ClassLarge }),
		"negative memory": with(func(j *Job) { j.Footprint.Bytes = -1 }),
		"not UTF-8":       with(func(j *Job) { j.Args = []string{"\xff"} }),
		"NUL":             with(func(j *Job) { j.Args = []string{"a\x00"} }),
		"NUL in program":  with(func(j *Job) { j.Program = "./a\x00" }),
		"line in program": with(func(j *Job) { j.Program = "./a\nb" }),
		"escape in dir":   with(func(j *Job) { j.Dir = "a\x1b" }),
		"unseen in name":  with(func(j *Job) { j.Name = "a\u200b" }),
		"bad env":         with(func(j *Job) { j.Env = []string{"A"} }),
		"bad binding":     with(func(j *Job) { j.Binding = 7 }),
		"undeclared":      with(func(j *Job) { j.Binding = BindDeclared }),
		"unbound gpus":    with(func(j *Job) { j.GPUs, j.Footprint.Bytes, j.Class = 2, 1, ClassSmall }),
		"too many gpus":   with(func(j *Job) { j.GPUs, j.Footprint.Bytes, j.Class, j.Binding = 1000, 1, ClassSmall, BindDeclared }),
		"one gpu":         with(func(j *Job) { j.GPUs = 1 }),
		"no share":        with(func(j *Job) { j.Share = math.NaN() }),
	} {
		var b bytes.Buffer
		if err := WriteYAML(&b, m); err == nil || !strings.HasPrefix(err.Error(), "write mix ") || b.Len() > 0 {
			t.Errorf("%s: error %v, %d bytes written", name, err, b.Len())
		}
	}
}

func TestWriteYAMLReportsTheWriter(t *testing.T) {
	full := errors.New("disk full")
	if err := WriteYAML(failingWriter{full}, Catalog()[0]); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
