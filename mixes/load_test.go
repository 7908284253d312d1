package mixes

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/userfile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestLoadYAML(t *testing.T) {
	m, err := Load("testdata/good.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	needle, isolated := catalogJob(t, "needle-32768"), catalogJob(t, "srad_v2-16384")
	isolated.Isolate, isolated.Timeout = true, 10*time.Minute
	solver := Job{
		Name: "solver 512", Program: "./my/solver", Args: []string{"-n", "0512", "-x", "0.50", "-v"},
		Stdin: "in put.txt", Dir: "/data", Env: []string{"OMP_NUM_THREADS=4", "A=b c", "E="},
		Footprint: Footprint{1610612736, 4096, 256}, Class: ClassSmall,
		Pin: true, Binding: BindDeclared, Timeout: 90 * time.Second, Wait: new(2 * time.Minute), Deadline: time.Hour,
	}
	srad := Job{Name: "srad_v1", Program: "srad_v1/srad", Args: []string{"100", "0.50", "0x10", "two words", "", "true"}}
	big := catalogJob(t, "lavaMD-100")
	big.Name, big.Footprint.Bytes, big.Binding = "big", 9<<30, BindDeclared
	big.KnownFault, big.Group, big.Wait = true, 3, new(time.Duration(0))
	two, part := catalogJob(t, "needle-16384"), catalogJob(t, "needle-16384")
	two.Group, two.GPUs, two.Binding = 3, 2, BindDeclared
	part.Group, part.Share = 3, 0.3
	four, one := catalogJob(t, "needle-16384"), catalogJob(t, "needle-16384")
	four.Group, four.Ranks = 3, 4
	one.Group, one.Ranks, one.Pin = 3, 1, true
	want := Mix{
		Name: "nightly set", Description: "two lines\nof text\n", Ratio: "3:1", Source: "testdata/good.yaml",
		Jobs:  []Job{needle, isolated, isolated, solver, solver, srad, big, two, part, four, one},
		Lines: []int{8, 9, 9, 10, 10, 25, 27, 28, 29, 30, 31},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
	if got, want := srad.Command(), `srad_v1/srad 100 0.50 0x10 "two words" "" true`; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	if got, want := two.Command(), "2 GPUs: needle 16384 10"; got != want || two.Single().Command() != "needle 16384 10" {
		t.Errorf("command %s, want %s", got, want)
	}
	if got, want := four.Command(), "4 ranks: needle 16384 10"; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
	if got, want := solver.Command(), `./my/solver -n 0512 -x 0.50 -v < "in put.txt"`; got != want {
		t.Errorf("command %s, want %s", got, want)
	}
}

// The defaults of group and priority may be written. They are not written again.
func TestGroupAndPriority0(t *testing.T) {
	parse := func(text string) (m Mix) {
		t.Helper()
		m, err := parseYAML(newLines("m.yaml", strings.NewReader(text)), builtin().jobs, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	said := parse("jobs:\n  - {job: bfs-32M, group: 0, priority: 0}\n  - {job: bfs-32M, group: 1, priority: 2}\n")
	silent := parse("jobs:\n  - bfs-32M\n  - {job: bfs-32M, group: 1, priority: 2}\n")
	if !reflect.DeepEqual(said, silent) {
		t.Errorf("said %+v, and left out %+v", said, silent)
	}
	var b bytes.Buffer
	if err := WriteYAML(&b, said); err != nil {
		t.Fatal(err)
	}
	if again := parse(b.String()); !reflect.DeepEqual(again.Jobs, said.Jobs) {
		t.Errorf("written as\n%sand read again as %+v, want %+v", b.String(), again, said)
	}
}

// A file from Windows reads like any other.
func TestLoadYAMLWithCRLFAndByteOrderMark(t *testing.T) {
	plain, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "good.yml")
	data := append([]byte(userfile.ByteOrderMark), bytes.ReplaceAll(plain, []byte("\n"), []byte("\r\n"))...)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load("testdata/good.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if firstDifference(got.Jobs, want.Jobs) >= 0 || len(got.Jobs) != len(want.Jobs) || got.Name != want.Name {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestLoadWL(t *testing.T) {
	m, err := Load("testdata/good.wl", nil)
	if err != nil {
		t.Fatal(err)
	}
	sradV2 := Job{
		Name: "srad_v2-64x128", Program: "srad_v2/srad", Args: strings.Fields("64 128 0 1 0 1 0.5 2"),
		Footprint: Footprint{24 * 64 * 128, 32, 256}, Class: ClassSmall,
	}
	bfs := Job{Name: "bfs", Program: "bfs", Args: []string{"/data/graph1M.txt"}}
	predict := Job{Name: "darknet", Program: "darknet", Args: strings.Fields("classifier predict a.data"), Stdin: "/x/names.txt"}
	want := Mix{Name: "good", Source: "testdata/good.wl", Jobs: []Job{
		catalogJob(t, "needle-32768"), catalogJob(t, "srad_v1-15000"), sradV2, catalogJob(t, "bfs-32M"), bfs,
		catalogJob(t, "dwt2d-8192"), catalogJob(t, "darknet-detect"), catalogJob(t, "darknet-train"), predict,
	}, Lines: []int{1, 4, 5, 6, 7, 8, 9, 10, 11}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got  %+v\nwant %+v", m, want)
	}
}

func TestLoadErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.*")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d bad files, %v", len(files), err)
	}
	var b strings.Builder
	for _, file := range files {
		m, err := Load(file, nil)
		var all InputErrors
		if !errors.As(err, &all) {
			t.Errorf("%s: %d jobs, error %v; want InputErrors", file, len(m.Jobs), err)
			continue
		}
		for _, e := range all {
			if e.File != file || e.Line < 1 && filepath.Ext(file) != ".txt" {
				t.Errorf("%s: error without its place: %+v", file, e)
			}
			fmt.Fprintln(&b, e)
		}
		var first *InputError
		if !errors.As(err, &first) || first != all[0] {
			t.Errorf("%s: errors.As does not find the first error", file)
		}
	}
	golden := "testdata/bad.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("errors differ from %s (run with -update and read the difference):\n%s", golden, got)
	}
}

func TestManyErrorsAreCounted(t *testing.T) {
	_, err := parseYAML(newLines("f.yaml", strings.NewReader("jobs:\n"+strings.Repeat("  - no-such-job\n", 50))), builtin().jobs, nil)
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxShownErrors+1 || lines[maxShownErrors] != "f.yaml: 30 more errors" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// A few long words and a large count do not make a mix of gigabytes.
func TestTextOfAllJobsIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.yaml")
	long := strings.Repeat("x", 5000)
	for text, want := range map[string]string{
		"{job: needle-16384, count: 500, name: " + long + "}":    "",
		"{job: needle-16384, count: 500000, name: " + long + "}": path + ":2:5: more than 1GiB of names and commands in the mix; use a smaller count",
		"{program: ./a, count: 500000, args: [" + long + "]}":    path + ":2:5: more than 1GiB of names and commands in the mix; use a smaller count",
		"{job: needle-16384, count: 500001}":                     path + ":2:32: bad count \"500001\"; write a whole number from 1 to 500000",
	} {
		if err := os.WriteFile(path, []byte("jobs:\n  - "+text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, nil)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: error %v, want %q", text, err, want)
		}
	}
}

// A directive is not a document.
func TestDirectivesOfYAML(t *testing.T) {
	for text, want := range map[string]string{
		"%YAML 1.2\n---\njobs: [bfs-32M]\n": "", "---\njobs: [bfs-32M]\n...\n": "", "%YAML 1.2\n---\n": "nothing in the file",
		"%YAML 1.2\n---\njobs: [bfs-32M]\n---\njobs: [bfs-32M]\n": "more than one YAML document",
	} {
		m, err := parseYAML(newLines("m.yaml", strings.NewReader(text)), builtin().jobs, nil)
		if want == "" && (err != nil || len(m.Jobs) != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %d jobs, %v, want %q", text, len(m.Jobs), err, want)
		}
	}
}

func TestLoadMissingFile(t *testing.T) {
	if _, err := Load("testdata/absent.yaml", nil); !errors.Is(err, fs.ErrNotExist) || err.Error() != "mix testdata/absent.yaml: no such file or directory" {
		t.Errorf("error %v", err)
	}
}

// suiteOf returns a suite that has these programs beside SuitePrograms.
func suiteOf(programs ...string) func(string) bool {
	return func(program string) bool { return slices.Contains(programs, program) }
}

func catalogJob(t *testing.T, name string) Job {
	t.Helper()
	j, found := builtin().jobs.byName[name]
	if !found {
		t.Fatalf("no catalog job %s", name)
	}
	return j.clone()
}

// Words that a reader of the command could take for something else are quoted.
func TestQuotedWords(t *testing.T) {
	for word, want := range map[string]string{"a-1.5/x": "a-1.5/x", "": `""`, "<": `"<"`, "<<": "<<", "a b": `"a b"`, "a\tb": `"a\tb"`, `a"b`: `"a\"b"`,
		`a\b`: `"a\\b"`, "größe": "größe", "a\x7f": `"a\x7f"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "a\u00a0b": `"a\u00a0b"`} {
		if got := (Job{Program: "./p", Args: []string{word}}).Command(); got != "./p "+want {
			t.Errorf("%q: %s, want ./p %s", word, got, want)
		}
	}
}
