package suites

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// What a job runs and where is settled, or refused, before any job starts.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	needle := filepath.Join(dir, "needle")
	nn := filepath.Join(dir, "pilot", "nn")
	script := []byte("#!/bin/sh\n")
	if err := errors.Join(os.Mkdir(filepath.Dir(nn), 0o755), os.WriteFile(needle, script, 0o755), os.WriteFile(nn, script, 0o755)); err != nil {
		t.Fatal(err)
	}
	suite, err := Open(dir, Plain, data)
	if err != nil {
		t.Fatal(err)
	}
	ofSuite := mixes.Job{Program: "needle", Args: []string{"1024", "10"}}
	own := mixes.Job{Program: "/bin/sh"}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if _, dirs, err := suite.resolve(mixes.Mix{Jobs: []mixes.Job{own}}); err != nil || dirs[0] != here {
		t.Errorf("a program of the user's own works in %v (%v), want %s", dirs, err, here)
	}
	_, _, err = suite.resolve(mixes.Mix{Jobs: []mixes.Job{ofSuite, ofSuite}})
	if err == nil || strings.Count(err.Error(), data+" is not a directory: caserun data makes it") != 1 {
		t.Errorf("without the data directory: %v", err)
	}
	if _, dirs, err := suite.resolve(mixes.Mix{Jobs: []mixes.Job{{Program: "pilot/nn"}}}); err != nil || dirs[0] != here {
		t.Errorf("a program that reads no files works in %v (%v), want %s", dirs, err, here)
	}
	own.Dir = needle
	if _, _, err = suite.resolve(mixes.Mix{Jobs: []mixes.Job{own}}); err == nil || !strings.Contains(err.Error(), needle+" is not a directory: name one that exists with dir in the mix") {
		t.Errorf("with a file as directory: %v", err)
	}
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	queue := filepath.Join(dir, "queue")
	if err := syscall.Mkfifo(queue, 0o700); err != nil {
		t.Fatal(err)
	}
	_, _, err = suite.resolve(mixes.Mix{Jobs: []mixes.Job{{Program: queue}, {Program: "/bin/sh", Stdin: queue}}})
	if err == nil || strings.Count(err.Error(), "it is a pipe or FIFO") != 2 {
		t.Errorf("with a FIFO as program and as standard input: %v", err)
	}
	// A graph that bfs would wait for, or find nothing in, is not there. /dev/null is what a job may have as its standard input.
	if err := os.WriteFile(filepath.Join(data, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for graph, says := range map[string]string{queue: "it is a pipe or FIFO", dir: "it is a directory", "empty": "empty is empty", "none": "no such file"} {
		_, _, err := suite.resolve(mixes.Mix{Jobs: []mixes.Job{{Program: "bfs", Args: []string{graph}, Stdin: os.DevNull}}})
		if err == nil || strings.Count(err.Error(), "input file of") != 1 || !strings.Contains(err.Error(), says) {
			t.Errorf("a graph that is %s: %v, want %q", graph, err, says)
		}
	}
	programs, dirs, err := suite.resolve(mixes.Mix{Jobs: []mixes.Job{ofSuite}})
	if err != nil || programs[0] != needle || dirs[0] != data {
		t.Errorf("%v in %v (%v), want %s in %s", programs, dirs, err, needle, data)
	}
}

// A program that cannot start is refused before any job starts, and named once with its first job. The other jobs are resolved beside it.
func TestResolvePrograms(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/usr/bin/env tool\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(dir, "tools")
	if err := os.MkdirAll(filepath.Join(tools, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/bin/true", filepath.Join(dir, "tool")); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(dir, "gone")
	programs, dirs, err := Suite{}.resolve(mixes.Mix{Source: "mix.yaml", Lines: []int{3, 4, 4, 5, 6}, Jobs: []mixes.Job{
		{Name: "fine", Program: "/bin/true"},
		{Name: "typo", Program: gone}, {Name: "again", Program: gone},
		{Name: "with its PATH", Program: script, Env: []string{"PATH=" + tools, "PATH=" + dir}},
		{Name: "without", Program: script, Env: []string{"PATH=" + tools}},
	}})
	if want := []string{"/bin/true", gone, gone, script, script}; !slices.Equal(programs, want) || len(dirs) != len(want) {
		t.Errorf("%v in %v", programs, dirs)
	}
	want := "mix.yaml:4: job 1 (typo): program " + gone + ": no such file or directory: build it, or correct its path\n" +
		"mix.yaml:6: job 4 (without): program " + script + ": its interpreter tool, which its first line has /usr/bin/env look for in PATH, cannot be found: install it, or correct the line"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// The builtin suite has two builds, and an error says which is not there and what makes it.
func TestBuildsOfTheBuiltinSuite(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, sources := range []string{"benchmarks/rodinia", "native/pass"} {
		if err := os.MkdirAll(sources, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for build, says := range map[Build]string{Plain: "bin/suite (programs not found): run make cuda, or name",
		Compiled: "bin/suite-casecc (programs not found): run make casecc, run without --probe static, or name"} {
		if _, err := Open(Builtin, build, dir); !errors.Is(err, errNotBuilt) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	jobs := []mixes.Job{{Program: "needle"}}
	for build, folder := range map[Build]string{Plain: "suite", Compiled: "suite-casecc"} {
		want := filepath.Join(dir, "bin", folder, "needle")
		if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if programs, _, err := Resolve(Builtin, build, dir, mixes.Mix{Jobs: jobs}); err != nil || programs[0] != want {
			t.Errorf("%v, %v, want %s", programs, err, want)
		}
	}
	_, _, err := Resolve(Builtin, Compiled, dir, mixes.Mix{Jobs: []mixes.Job{{Program: "gaussian"}}})
	if !errors.Is(err, errNotBuilt) || !strings.Contains(err.Error(), "gaussian") || !strings.Contains(err.Error(), "make casecc") {
		t.Errorf("a program that the build has not: %v", err)
	}
}

// A suite has every executable in its directory, and its own file says what is known of
// them.
func TestSuiteOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hotspot := write("cuda/hotspot", "#!/bin/sh\n", 0o755)
	write("backups/cuda/hotspot", "", 0o755)
	srad := write("srad/srad_v2/srad", "#!/bin/sh\n", 0o755)
	write("hotspot.cu", "", 0o644)
	file := write(mixes.SuiteFile, "programs:\n  hotspot: {faults: known}\n  srad_v2: {faults: known, restartable: true}\n", 0o644)
	suite, err := Open(dir, Plain, dir)
	if err != nil {
		t.Fatal(err)
	}
	for program, has := range map[string]bool{"hotspot": true, "srad_v2/srad": true, "srad_v1/srad": false, "hotspot.cu": false, "spot": false, "": false, "cuda": false} {
		if suite.Has(program) != has {
			t.Errorf("has %q: %v", program, !has)
		}
	}
	jobs := []mixes.Job{{Program: "hotspot"}, {Program: "srad_v2/srad"}, {Program: "srad_v1/srad"}, {Program: "./hotspot"}}
	for i, j := range suite.describe(jobs) {
		if j.KnownFault != (i < 2) {
			t.Errorf("%s is known to fault: %v", j.Program, j.KnownFault)
		}
		if Restartable(dir, &j) != (i == 1) {
			t.Errorf("%s is restartable: %v", j.Program, j.Restartable)
		}
	}
	for _, j := range suite.describe([]mixes.Job{{Program: "srad_v2/srad", Restartable: new(false)}, {Program: "srad_v2/srad", Ranks: 2}}) {
		if Restartable(dir, &j) {
			t.Errorf("%v with %d ranks is restartable", j.Restartable, j.Ranks)
		}
	}
	if jobs[0].KnownFault {
		t.Error("the caller's jobs were changed")
	}
	programs, dirs, err := suite.resolve(mixes.Mix{Jobs: jobs[:2]})
	if err != nil || programs[0] != hotspot || programs[1] != srad || dirs[0] != dir {
		t.Errorf("%v in %v (%v)", programs, dirs, err)
	}
	if _, _, err := suite.resolve(mixes.Mix{Jobs: []mixes.Job{{Program: "gaussian"}}}); !errors.Is(err, errNotBuilt) || !strings.Contains(err.Error(), "gaussian") {
		t.Errorf("a program that it has not: %v", err)
	}
	write(mixes.SuiteFile, "programs: {lud: {faults: known}}\n", 0o644)
	var input mixes.InputErrors
	if _, err := Open(dir, Plain, dir); !errors.As(err, &input) || input[0].File != file {
		t.Errorf("a bad file: %v", err)
	}
}

// Programs of the builtin suite may be started again, unless their mix says otherwise. No other program may, unless its mix or suite says so.
func TestWhatIsRestartable(t *testing.T) {
	for i, c := range []struct {
		suite string
		job   mixes.Job
		want  bool
	}{
		{Builtin, mixes.Job{Program: "needle"}, true},
		{Builtin, mixes.Job{Program: "needle", Restartable: new(false)}, false},
		{Builtin, mixes.Job{Program: "needle", Ranks: 2}, false},
		{Builtin, mixes.Job{Program: "./needle"}, false},
		{Builtin, mixes.Job{Program: "./needle", Restartable: new(true)}, true},
		{Builtin, mixes.Job{Steps: "a.jsonl"}, false},
		{"/mine", mixes.Job{Program: "needle"}, false},
	} {
		if got := Restartable(c.suite, &c.job); got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
	}
}

func TestRebuildNamesTheTarget(t *testing.T) {
	t.Chdir("../..")
	for want, s := range map[string]Suite{
		"run make cuda on this machine, or with ARCH=sm_90 elsewhere":   {Name: Builtin, build: Plain},
		"run make casecc on this machine, or with ARCH=sm_90 elsewhere": {Name: Builtin, build: Compiled},
		"compile them with -arch=sm_90":                                 {Name: "/mine"},
	} {
		if got := s.Rebuild(90); got != want {
			t.Errorf("%s: %q, want %q", s.Name, got, want)
		}
	}
}

// A link to a suite's own file whose target is gone is not the absence of one: what it says of programs would be lost.
func TestDanglingSuiteFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("gone.yaml", filepath.Join(dir, mixes.SuiteFile)); err != nil {
		t.Fatal(err)
	}
	if s, err := Own(dir, "data"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("suite %v, error %v", s, err)
	}
}
