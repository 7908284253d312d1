package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/profiles"
)

// authors are command lines as in the workload files of CASE's authors, with other directories.
const authors = `backprop 524288
/their/cuda/backprop/backprop 4194304
srad 4096 4096 0 127 0 127 0.5 2
nvprof srad 100 0.5 20000 20000
nvprof --metrics inst_per_warp backprop 524288
nvprof --replay-mode disabled --metrics achieved_occupancy,stall_memory_dependency needle 32768 10
needle 2048 10
bfs graph1MW_6.txt
bfs /data/graph8M.txt
dwt2d rgb.bmp -d 1024x1024 -f -5 -l 3
darknet rnn generate their/rnn.cfg their/shakespeare.weights -len 100000
darknet classifier train their/cifar-porter.data their/cifar_small.cfg
cat image-names-large.txt | darknet classifier predict their.data their/darknet53_448.cfg w
cat image-names-large.txt | darknet classifier predict their.data alexnet.cfg alexnet.weights
cat image-names-large.txt | darknet classifier predict their.data darknet19.cfg darknet19.weights
cat image-names-large.txt | darknet classifier predict their.data resnet152.cfg resnet152.weights
cat image-names-medium.txt | darknet detect yolov3-tiny.cfg yolov3-tiny.weights
cat image-names-medium.txt | darknet detect yolov2-608.cfg yolov2-608.weights
cat image-names-medium.txt | darknet detect yolov3-spp.cfg yolov3-spp.weights
`

func know(t *testing.T, node, data, text string) (mixes.Mix, profiles.Set, []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "their.wl")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := mixes.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	known, err := Know(t.Context(), harness.Options{Node: node, Data: data}, &m, profiles.Catalog(), func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, known, said
}

// The PyTorch programs state no memory on GPUs. A simulated node has what was measured of them, and a user's profile counts on both.
func TestProgramsThatGrowStateNothing(t *testing.T) {
	m, err := mixes.Lookup("M-mixed")
	if err != nil {
		t.Fatal(err)
	}
	own, err := profiles.Catalog().Lookup(m.Jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := profiles.NewWriter(&file).Write(own); err != nil {
		t.Fatal(err)
	}
	users, err := profiles.Read("own.csv", &file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		node  string
		known profiles.Set
		want  int
	}{
		{Local, profiles.Catalog(), 0},
		{Local, profiles.Catalog().With(users), 1},
		{"sim:1xH200", profiles.Catalog(), 8},
	} {
		mix := m
		if _, err := Know(t.Context(), harness.Options{Node: c.node}, &mix, c.known, t.Logf); err != nil {
			t.Fatal(err)
		}
		stated := 0
		for _, j := range mix.Jobs {
			if j.Footprint.Bytes > 0 {
				stated++
			}
		}
		if stated != c.want {
			t.Errorf("%s: %d jobs state memory, want %d", c.node, stated, c.want)
		}
	}
}

// A simulated node runs what the authors ran, and says what it estimates. On this machine's GPUs nothing is estimated.
func TestAuthorsWorkloadsAreKnown(t *testing.T) {
	m, known, said := know(t, "sim:4xV100", "", authors)
	for _, j := range m.Jobs {
		if p, err := known.Lookup(j); err != nil || p.WallS() <= 0 || j.Footprint.Bytes == 0 {
			t.Errorf("%s: %v s, %+v, %v", j.Command(), p.WallS(), j.Footprint, err)
		}
	}
	if len(said) != 9 || !strings.HasPrefix(said[8], "commands that were not measured alone either") {
		t.Errorf("%d lines: %q", len(said), said)
	}
	if m, known, said = know(t, Local, "", "backprop 524288\n"); len(said) > 0 {
		t.Error(said)
	} else if _, err := known.Lookup(m.Jobs[0]); err == nil {
		t.Error("estimated for real GPUs")
	}
}

// The number of pictures is that of the list in the data directory.
func TestPicturesAreCounted(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "some.txt"), []byte(strings.Repeat("a.jpg\n\n", 2000)), 0o644); err != nil {
		t.Fatal(err)
	}
	const line = "cat some.txt | darknet detect yolov3-tiny.cfg w\n"
	m, known, _ := know(t, "sim:1xH200", data, line)
	half, err := known.Lookup(m.Jobs[0])
	if err != nil {
		t.Fatal(err)
	}
	m, known, _ = know(t, "sim:1xH200", t.TempDir(), line)
	if whole, err := known.Lookup(m.Jobs[0]); err != nil || half.KernelS < whole.KernelS*0.49 || half.KernelS > whole.KernelS*0.51 {
		t.Errorf("kernels of %v s, half of the pictures %v s (%v)", whole.KernelS, half.KernelS, err)
	}
}

// A steps file that is missing is named with the place that names it.
func TestMissingStepsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(file, []byte("jobs:\n  - bfs-32M\n  - {steps: gone.jsonl, name: late}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := mixes.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Know(t.Context(), harness.Options{Node: "sim:1xV100"}, &m, profiles.Catalog(), func(string, ...any) {})
	if want := file + ":3: the steps of job late: gone.jsonl: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// Files are looked for where the job runs, and a name of the user's own file says nothing of what is in it.
func TestFilesOfJobs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "graph8M.txt"), []byte("4194304\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "graph1M.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, j mixes.Job, file string) ([]byte, error) {
		f, err := opener(ctx, dir)(j, file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	}
	for _, c := range []struct {
		dir, file, want string
	}{{"", "graph8M.txt", "4194304\n"}, {dir, "graph8M.txt", "4194304\n"}, {"", filepath.Join(dir, "graph8M.txt"), "4194304\n"}} {
		if text, err := read(t.Context(), mixes.Job{Dir: c.dir}, c.file); err != nil || string(text) != c.want {
			t.Errorf("%s in %q: %q, %v", c.file, c.dir, text, err)
		}
	}
	if _, err := read(t.Context(), mixes.Job{Dir: "elsewhere"}, "graph8M.txt"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in another directory: %v", err)
	}
	// What is there is not what is not there.
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Symlink("nowhere", filepath.Join(dir, "dangling"))); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"graph1M.txt", "fifo", "dangling", "graph8M.txt/below"} {
		if _, err := read(t.Context(), mixes.Job{}, file); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", file, err)
		}
	}
	stopped, stop := context.WithCancelCause(t.Context())
	stop(errors.New("SIGTERM"))
	if _, err := read(stopped, mixes.Job{}, "graph8M.txt"); err == nil || err.Error() != "SIGTERM" {
		t.Errorf("stopped: %v", err)
	}
}
