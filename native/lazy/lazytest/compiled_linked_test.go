//go:build llvm

package lazytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/schedulers"
)

// casecc compiles and links a program with a static CUDA runtime, here the fake one. The program is
// scheduled and waited for without LD_PRELOAD, whether its task is static or left to the lazy
// runtime. With libcase preloaded, too, the scheduler hears the same.
func TestCompiledWithAStaticRuntime(t *testing.T) {
	clang, _ := llvm(t)
	buildLazy(t)
	tools := filepath.Dir(filepath.Dir(clang))
	nativetest.Build(t, "pass", "LLVM="+tools)
	dir := t.TempDir()
	build := func(name string, args ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		args = append(args, "-std=c++17", "-O2", "-Rpass=case", "-I", filepath.Join(fakeDir, "build"), filepath.Join(passDir, "tests/compiled/alone.cc"),
			filepath.Join(fakeDir, "build/11/libcudart_static.a"), "-o", out)
		cmd := exec.Command("../../pass/casecc", args...)
		cmd.Env = append(os.Environ(), "CASECC_LLVM="+tools)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("casecc %q: %v\n%s", args, err, said)
		}
		if static := strings.Count(string(said), ": static"); static != map[string]int{"static": 2, "lazy": 0}[name] {
			t.Errorf("%s: %d static launches:\n%s", name, static, said)
		}
		return out
	}
	for name, program := range map[string]string{"static": build("static"), "lazy": build("lazy", "-DFALLBACK")} {
		for _, env := range []string{notPreloaded, "SAME="} {
			prepare := func(env ...string) *lazyRun {
				p := prepareLazy(t, "11", "", "", env...)
				p.cmd.Path = program
				return p
			}
			calls := filepath.Join(t.TempDir(), "calls")
			p := prepare(env, "FAKE_CUDA_TRACE="+calls).start()
			waiting := p.r.next(t, "begin")
			made, err := os.ReadFile(calls)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for _, call := range []string{"cuDevicePrimaryCtxRetain", "cudaMalloc", "cudaLaunchKernel"} {
				if strings.Contains(string(made), call) {
					t.Errorf("%s: %s before the grant:\n%s", name, call, made)
				}
			}
			if q := waiting.Asks(); waiting.Bytes != 8<<20 || q.Blocks != 32 || q.ThreadsPerBlock != 96 || q.OnDevice != nil || q.Managed {
				t.Errorf("%s: it asked for %+v", name, q)
			}
			grant(t, waiting)
			p.finish(grant).mustSucceed()
			p.wantEvents("free gone")
			alone := exec.Command(program)
			alone.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(fakeDir, "build/11"))
			want, err := alone.Output()
			if got := strings.Join(p.lines, "\n") + "\n"; err != nil || got != string(want) || p.stderr.Len() != 0 {
				t.Errorf("%s: output %q, without a run %q (%v)\nstderr:\n%s", name, got, want, err, p.stderr.String())
			}

			p = prepare(env).start().finish(func(t *testing.T, e event) {
				if e.Kind == "begin" {
					if err := e.refuse(schedulers.TooLarge, 10<<20, 1<<20, "fits no device"); err != nil {
						t.Error(err)
					}
				}
			})
			p.mustSucceed()
			said := map[string][]string{"static": {"allocation 2"}, "lazy": {"allocation 0", "error 2"}}[name]
			for _, text := range said {
				if !slices.ContainsFunc(p.lines, func(line string) bool { return strings.Contains(line, text) }) {
					t.Errorf("%s, refused: output %q, want %q", name, p.lines, text)
				}
			}
		}
	}
}
