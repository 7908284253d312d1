package suites

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// Only the files of programs that jobs have are made, from the seed alone.
func TestFiles(t *testing.T) {
	paths := func(programs ...string) (paths []string) {
		var jobs []mixes.Job
		for _, p := range programs {
			jobs = append(jobs, mixes.Job{Program: p})
		}
		for _, f := range Files(jobs, 1) {
			paths = append(paths, f.Path)
		}
		return paths
	}
	if got := paths("needle", "dwt2d", "bfs", "dwt2d"); !slices.Equal(got, []string{"rgb.bmp", "graph32M.txt"}) {
		t.Errorf("files %q", got)
	}
	if got := paths("needle", "./darknet"); got != nil {
		t.Errorf("files %q for programs that read none", got)
	}
	if got := paths("darknet"); !slices.Contains(got, filepath.Join("cfg", "rnn.cfg")) {
		t.Errorf("files %q of Darknet", got)
	}
	pixels := func(seed uint64) string {
		var b bytes.Buffer
		if err := Files([]mixes.Job{{Program: "dwt2d"}}, seed)[0].Write(&b, nil); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if one := pixels(1); len(one) != 3<<20 || one != pixels(1) || one == pixels(2) {
		t.Errorf("%d bytes of pixels, want 3 MiB that the seed decides", len(one))
	}
}

func TestInputsOfJobs(t *testing.T) {
	for _, c := range []struct {
		job  mixes.Job
		want []string
	}{
		{mixes.Job{Program: "bfs", Args: []string{"graph.txt"}}, []string{"graph.txt"}},
		{mixes.Job{Program: "bfs", Args: []string{"gen:65536"}}, nil},
		{mixes.Job{Program: "bfs"}, nil},
		{mixes.Job{Program: "needle", Args: []string{"16384"}}, nil},
		{mixes.Job{Program: "dwt2d", Args: []string{"rgb.bmp"}, Stdin: "in"}, []string{"in", "rgb.bmp"}},
		{mixes.Job{Program: "./bfs", Args: []string{"graph.txt"}}, nil},
	} {
		if got := inputsOf(c.job); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.job.Command(), got, c.want)
		}
	}
}

// A program of the user's own declares no check by itself, with whatever suite it runs.
func TestWhoDeclaresAnOutputCheck(t *testing.T) {
	verified := []string{"8", "--verify"}
	jobs := []mixes.Job{{Program: "needle", Args: verified}, {Program: "srad_v1/srad", Args: verified}, {Program: "needle", Args: []string{"8"}},
		{Program: "./needle", Args: verified}, {Program: "needle", CheckStatus: 7}, {Program: "./own", CheckStatus: 1}}
	none, own, one := mixes.Check{}, mixes.Check{Failed: 7, Passes: true}, mixes.Check{Failed: 1, Passes: true}
	builtin := mixes.Check{Failed: 4, Passes: true}
	for suite, want := range map[string][]mixes.Check{Builtin: {builtin, builtin, {Failed: 4}, none, own, one}, "/opt/rodinia": {none, none, none, none, own, one}} {
		if got := Checks(suite, jobs); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", suite, got, want)
		}
	}
}

// A mix that cannot be read is the user's to mend.
func TestMixErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	for arg, says := range map[string]string{"W99": "W99", "none.yaml": "none.yaml", "dir/none.wl": "dir/none.wl"} {
		if _, err := (Suite{}).Mix(arg, nil); !errors.As(err, new(*MixError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if m, err := (Suite{}).Mix("w7", nil); err != nil || m.Name != "W7" {
		t.Errorf("w7: %s, %v", m.Name, err)
	}
}
