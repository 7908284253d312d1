package lazytest

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/mps"
	"github.com/caserun/caserun/runner/probe"
	"github.com/caserun/caserun/runner/swaparea"
)

// gpuChunk is smaller than in a run, because most programs here have little memory.
const gpuChunk = 2 << 20

// gpuPrograms are programs of benchmarks/lazy and of the builtin suite, and scripts. Those that are not
// built, or whose modules are missing, are left out.
func gpuPrograms(t *testing.T) [][]string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	fails := []string{"oom", "oom_first", "fault", "oom_static", "fault_static", "bystander"} // on purpose, or without arguments
	built, err := filepath.Glob(filepath.Join(root, "bin/lazy/*"))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, program := range built {
		if !slices.Contains(fails, filepath.Base(program)) && !strings.HasSuffix(program, ".so") {
			all = append(all, []string{program})
		}
	}
	for _, line := range []string{"backprop 65536", "bfs gen:100000:7", "srad_v1/srad 10 0.5 502 458", "srad_v2/srad 1024 512 0 127 0 127 0.5 2",
		"needle 1024 10", "lavaMD -boxes1d 6", "darknet rnn generate cfg/rnn.cfg weights/shakespeare.weights -len 200"} {
		command := strings.Fields(line)
		command[0] = filepath.Join(root, "bin/suite", command[0])
		all = append(all, command)
	}
	for _, name := range []string{"torch", "cupy", "jax"} {
		all = append(all, []string{"python3", filepath.Join(root, "benchmarks/lazy/python", "with_"+name+".py")})
	}
	return all
}

// TestGPURevocations runs programs on a real GPU while their memory is taken at random moments: each
// alone and eight at once, with MPS and without. They print the same as without the lazy runtime. It skips
// only if there is no GPU; with CASERUN_REQUIRE_GPU=1 it fails instead.
func TestGPURevocations(t *testing.T) {
	const noDevice = 5 // hold.h
	area, err := swaparea.Start(context.Background(), filepath.Join("..", "..", "ballast", "swaparea"), 2<<30, gpuChunk, nil)
	var exit *child.ExitError
	if required := os.Getenv("CASERUN_REQUIRE_GPU") == "1"; !required && (errors.Is(err, os.ErrNotExist) || errors.As(err, &exit) && exit.Status == noDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := area.Close(); err != nil {
			t.Error(err)
		}
	}()
	daemon, err := mps.Start(context.Background(), mps.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := daemon.Quit(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	g := &gpu{area: area, uuid: firstGPU(t)}
	programs := g.run(t, gpuPrograms(t))
	for _, way := range []struct {
		name   string
		env    []string
		atOnce int
	}{{"alone", nil, 1}, {"alone, MPS", daemon.Env(), 1}, {"8 at once", nil, 8}, {"8 at once, MPS", daemon.Env(), 8}} {
		t.Run(way.name, func(t *testing.T) {
			atOnce(way.atOnce, programs, func(n int, p gpuProgram) { g.take(t, uint64(n), p, way.env) })
		})
	}
}

// atOnce calls do for all, for so many at once.
func atOnce[T any](most int, all []T, do func(n int, one T)) {
	var begun sync.WaitGroup
	free := make(chan bool, most)
	for n, one := range all {
		free <- true
		begun.Go(func() {
			defer func() { <-free }()
			do(n, one)
		})
	}
	begun.Wait()
}

func firstGPU(t *testing.T) (id [16]byte) {
	t.Helper()
	out, err := exec.Command("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader", "-i", "0").Output()
	if err != nil {
		t.Fatalf("nvidia-smi: %v", err)
	}
	digits := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(string(out)), "GPU-"), "-", "")
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		t.Fatalf("nvidia-smi says %q: %v", out, err)
	}
	return id
}

// gpu is a GPU and host memory for what it holds.
type gpu struct {
	area *swaparea.Area
	uuid [16]byte
}

func (g *gpu) command(command, env []string) *exec.Cmd {
	c := exec.Command(command[0], command[1:]...)
	if data := filepath.Join("..", "..", "..", "data"); isDirectory(data) { // caserun data makes it
		c.Dir = data
	}
	c.Env = append(append(os.Environ(), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=0"), env...)
	return c
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// gpuProgram is a program, and what it prints without the lazy runtime.
type gpuProgram struct {
	command []string
	prints  string
}

func (p gpuProgram) String() string { return strings.Join(p.command, " ") }

// run runs the programs without the lazy runtime, and returns those that can run here.
func (g *gpu) run(t *testing.T, commands [][]string) []gpuProgram {
	prints := make([]*string, len(commands))
	atOnce(8, commands, func(n int, command []string) {
		name := gpuProgram{command: command}.String()
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Logf("%s: left out: %v", name, err)
			return
		}
		out, err := g.command(command, nil).Output()
		var failed *exec.ExitError
		switch {
		case errors.As(err, &failed) && bytes.Contains(failed.Stderr, []byte("ModuleNotFoundError")):
			t.Logf("%s: left out: its module is missing", name)
		case err != nil:
			t.Errorf("%s without the lazy runtime: %v", name, err)
		default:
			text := string(out)
			prints[n] = &text
		}
	})
	var all []gpuProgram
	for n, command := range commands {
		if prints[n] != nil {
			all = append(all, gpuProgram{command, *prints[n]})
		}
	}
	return all
}

// take runs one program under a server that takes its memory. It is called from several goroutines.
func (g *gpu) take(t *testing.T, seed uint64, program gpuProgram, env []string) {
	library, err := filepath.Abs(filepath.Join(lazyDir, "libcase.so"))
	if err != nil {
		t.Error(err)
		return
	}
	p, k := newTaker(t, seed, gpuChunk, func(s *probe.Server, r recorder) *lazyRun {
		p := &lazyRun{t: t, server: s, r: r, program: program.String(), cmd: g.command(program.command, append(slices.Clone(env),
			"LD_PRELOAD="+library, "CASE_SOCKET="+s.Path(), "CASE_TOKEN="+s.Register(1), "CASE_REQUIRED=1", "CASE_BINDING=task", movable))}
		p.cmd.Stderr = &p.stderr
		return p
	})
	var given []int
	k.uuids = [][16]byte{g.uuid}
	k.area = func(n int) []int {
		files := g.area.Take(n)
		given = append(given, files...)
		return files
	}
	p.finish(k.answer)
	g.area.Give(given)
	if got := strings.Join(p.lines, "\n"); p.err != nil || strings.TrimSpace(got) != strings.TrimSpace(program.prints) {
		t.Errorf("%s: %v\n%s\nwant\n%s\nstderr:\n%s", program, p.err, got, program.prints, p.stderr.String())
	}
	ended := map[string]int{}
	for _, r := range k.revoked {
		ended[strings.TrimSpace(string(r.Outcome)+" "+r.Why)]++
	}
	_, freed := k.count()
	t.Logf("%s: %v, %d MiB freed, %d chunks that were offered came back", program, ended, freed>>20, k.back)
}
