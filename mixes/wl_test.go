package mixes

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A file with & or wait says which jobs arrive together. A tool before a program is left out and
// noted. Programs beside SuitePrograms come from the suite.
func TestLoadScript(t *testing.T) {
	m, err := Load("testdata/script.wl", suiteOf("hotspot", "gaussian"))
	if err != nil {
		t.Fatal(err)
	}
	in := func(group int, j Job) Job { j.Group = group; return j }
	own := func(program, args string) Job {
		return Job{Name: program, Program: program, Args: strings.Fields(args)}
	}
	want := Mix{Name: "script", Source: "testdata/script.wl", Jobs: []Job{
		catalogJob(t, "needle-32768"), own("hotspot", "512 2 2 /data/temp_512"), catalogJob(t, "darknet-detect"),
		in(1, catalogJob(t, "bfs-32M")), in(1, own("gaussian", "-s 16")),
		in(2, own("hotspot", "64 2 2")), in(2, own("hotspot", "64 2 2")),
		in(3, catalogJob(t, "lavaMD-100")),
	}, Lines: []int{2, 3, 4, 7, 8, 11, 12, 13}, Notes: []string{
		"testdata/script.wl: `&` and `wait` make it a script: 4 groups, each starts when the one before has ended",
		`testdata/script.wl:2: "nvprof --print-gpu-trace -o out.nvprof --log-file %p.log" before the program is left out; more lines with nvprof: 1`,
		`testdata/script.wl:4: "/usr/bin/time -v nsys profile -o a --stats=true" before the program is left out`,
		`testdata/script.wl:8: "compute-sanitizer --tool memcheck" before the program is left out`,
	}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	checkRoundTrip(t, m)
}

// The authors' lists have lines without srad's directory: its arguments tell which of both it is.
func TestSradByItsArguments(t *testing.T) {
	for line, program := range map[string]string{
		"srad 100 0.5 11000 11000":                    "srad_v1/srad",
		"/x/cuda/srad 8192 8192 0 127 0 127 0.5 2":    "srad_v2/srad",
		"/x/srad_v1/srad 8192 8192 0 127 0 127 0.5 2": "srad_v1/srad",
	} {
		m, err := parseWL(newLines("a.wl", strings.NewReader(line+"\n")), jobIndex{}, nil)
		if err != nil || m.Jobs[0].Program != program {
			t.Errorf("%s: %+v, %v; want %s", line, m.Jobs, err, program)
		}
	}
}

func TestGroupsOfScripts(t *testing.T) {
	const a, b, c = "backprop 16", "bfs g.txt", "lavaMD -boxes1d 1"
	for _, x := range []struct {
		lines  []string
		groups []int
	}{
		{[]string{a, b, c}, []int{0, 0, 0}},
		{[]string{a + " &", b + " &", "wait", c + " &"}, []int{0, 0, 1}},
		{[]string{a + "&", b + "\t&", c + "&", "wait"}, []int{0, 0, 0}},
		{[]string{a, b, c, "wait"}, []int{0, 1, 2}},
		{[]string{a + " &", b, c}, []int{0, 0, 1}},
		{[]string{a, b + " &", c + " &"}, []int{0, 1, 1}},
		{[]string{"wait", a + " &", "wait", "wait", "# wait", b, "wait", c}, []int{0, 1, 2}},
	} {
		text := strings.Join(x.lines, "\r\n")
		m, err := parseWL(newLines("f.wl", strings.NewReader(text)), builtin().jobs, nil)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var groups []int
		for _, j := range m.Jobs {
			groups = append(groups, j.Group)
		}
		if !slices.Equal(groups, x.groups) {
			t.Errorf("%q: groups %v, want %v", text, groups, x.groups)
		}
		var notes []string
		if n := x.groups[len(x.groups)-1] + 1; n > 1 {
			notes = []string{fmt.Sprintf("f.wl: `&` and `wait` make it a script: %d groups, each starts when the one before has ended", n)}
		}
		if !slices.Equal(m.Notes, notes) {
			t.Errorf("%q: notes %q, want %q", text, m.Notes, notes)
		}
	}
}

func TestToolsBeforePrograms(t *testing.T) {
	for line, tools := range map[string]int{
		"needle 16384 10 nvprof":                                               0,
		"nvprof needle 16384 10":                                               1,
		"/usr/local/cuda/bin/nvprof -- needle 16384 10":                        2,
		"nvprof --profile-from-start off -u ms needle 16384 10":                5,
		"nvprof --unknown=value needle 16384 10":                               2,
		"nvprof -o needle needle -o x":                                         3,
		"ncu --set full -k regex:needle -f needle -f":                          6,
		"cuda-memcheck --tool racecheck needle 16384 10":                       3,
		"time nvprof needle 16384 10":                                          2,
		"time -o t nsys profile -t cuda compute-sanitizer --tool x needle 1 2": 10,
	} {
		words := splitLine(line)
		found, command, err := unwrap(words)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if len(found) != tools || command[0].text != "needle" || len(found)+len(command) != len(words) {
			t.Errorf("%s: tools %v, command %v", line, found, command)
		}
	}
}

// Each option is in only one of its tool's lists. In both lists its meaning would depend on their
// order.
func TestToolsHaveEachOptionOnce(t *testing.T) {
	for name, w := range wrappers {
		seen := map[string]bool{}
		for _, o := range strings.Fields(w.valued + " " + w.flags) {
			if seen[o] || !strings.HasPrefix(o, "-") || strings.Contains(o, "=") {
				t.Errorf("%s: option %s", name, o)
			}
			seen[o] = true
		}
	}
}

// An unknown program is named once, as the line has it without a profiler, with the command that measures it.
func TestUnknownProgramsNameTheSuite(t *testing.T) {
	const command = "caserun profile --mix 'the f.%s' --suite DIR --out profiles.csv"
	for _, c := range []struct {
		has  func(string) bool
		says string
	}{{nil, "--suite DIR adds those of your own build"}, {suiteOf("gaussian"), "neither --suite nor --profiles has it"}} {
		_, wl := parseWL(newLines("the f.wl", strings.NewReader("x=1 y\n/x/hotspot 512\nnvprof -s /x/hotspot 64 &\nhotspot3D 5\n")), builtin().jobs, c.has)
		_, yaml := parseYAML(newLines("the f.yaml", strings.NewReader("jobs: [{program: hotspot}]")), builtin().jobs, c.has)
		for kind, err := range map[string]error{"wl": wl, "yaml": yaml} {
			if command := fmt.Sprintf(command, kind); err == nil || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), command) != 1 {
				t.Errorf("error %v, want one with %q and %q", err, c.says, command)
			}
		}
		lines := strings.Split(wl.Error(), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], `the f.wl:2:1: unknown program "hotspot" in "/x/hotspot 512" (more lines with it: 1); known are`) ||
			lines[2] != `the f.wl:4:1: unknown program "hotspot3D" in "hotspot3D 5"` {
			t.Errorf("%q", lines)
		}
	}
	_, err := parseWL(newLines("f.wl", strings.NewReader("nvprof -s gaussian -s 16 &\n")), builtin().jobs, nil)
	if err == nil || strings.Contains(err.Error(), "nvprof") || strings.Contains(err.Error(), "&") {
		t.Errorf("a profiler's name in %v", err)
	}
}

// A line that does more than to start a program says what to write in its place.
func TestRemediesOfLines(t *testing.T) {
	for line, says := range map[string]string{
		"needle 16 10 < in": "write cat FILE | program arguments", "needle 16 10 2>&1": "remove the redirection",
		"nohup needle 16 10 &": "remove what is before the program", "/usr/bin/taskset -c 0 needle 16 10": "remove what is before the program",
		"nvprof sudo needle 16 10": `unknown program "sudo" in "sudo needle 16 10"; jobs start as they are`, "lists/a.wl": "caserun mix lists/a.wl", "X=1 needle 16 10": "the key env",
	} {
		if _, err := parseWL(newLines("f.wl", strings.NewReader(line)), builtin().jobs, nil); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "caserun profile") {
			t.Errorf("%s: %v, want %s", line, err, says)
		}
	}
}

func TestTooManyLines(t *testing.T) {
	read := func(text string) (Mix, error) {
		in := newLines("f.wl", strings.NewReader(text))
		in.limits.jobs = 3
		return parseWL(in, builtin().jobs, nil)
	}
	text := strings.Repeat("needle 16 10\n", 3) + "wait\n"
	if m, err := read(text); err != nil || len(m.Jobs) != 3 {
		t.Errorf("%d jobs, %v", len(m.Jobs), err)
	}
	if _, err := read(text + "needle 16 10\nneedle\n"); err == nil || err.Error() != "f.wl:5: more than 3 jobs in the mix" {
		t.Errorf("error %v", err)
	}
}
