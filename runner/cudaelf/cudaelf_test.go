package cudaelf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Sources whose objects look like nvcc's output, without CUDA.
const (
	// runtimeSource is a libcudart with the two functions that matter here.
	runtimeSource = `void __cudaRegisterFatBinary(void) {} int cudaMalloc(void) { return 0; }`
	kernels       = `__attribute__((section(".nv_fatbin"), used)) static const char fat[16] = "device code";`
	registers     = kernels + ` void __cudaRegisterFatBinary(void); void kernel(void) { __cudaRegisterFatBinary(); }`
	ownRuntime    = kernels + ` __attribute__((visibility("hidden"))) void __cudaRegisterFatBinary(void) {}` +
		` void kernel(void) { __cudaRegisterFatBinary(); }`
	emptyMain  = ` int main(void) { return 0; }`
	kernelMain = ` int main(void) { kernel(); return 0; }`
)

// workshop compiles small programs in a directory of its own.
type workshop struct {
	t   *testing.T
	dir string
}

func (w workshop) path(name string) string { return filepath.Join(w.dir, name) }

// build compiles source to the file name; flags say with what it is linked.
func (w workshop) build(name, source string, flags ...string) string {
	w.t.Helper()
	out, file := w.path(name), w.path(name+".c")
	for _, err := range []error{os.MkdirAll(filepath.Dir(out), 0o755), os.WriteFile(file, []byte(source), 0o644)} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	c := exec.Command("gcc", append([]string{"-o", out, file}, flags...)...)
	c.Dir = w.dir
	if text, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("gcc %s: %v\n%s", name, err, text)
	}
	return out
}

func (w workshop) library(name, source string, flags ...string) string {
	w.t.Helper()
	return w.build(name, source, append([]string{"-shared", "-fPIC", "-Wl,-soname," + filepath.Base(name)}, flags...)...)
}

func newWorkshop(t *testing.T) workshop { return workshop{t, t.TempDir()} }

func TestInspect(t *testing.T) {
	w := newWorkshop(t)
	cudart := w.library("lib/libcudart.so.13", runtimeSource)
	w.library("lib/libshared.so", registers, cudart)
	w.library("lib/libownruntime.so", ownRuntime)
	w.library("lib/libcuda.so.1", `int cuInit(void) { return 0; }`)
	w.library("lib/libcase.so", `int case_task_begin(void) { return 0; }`)
	// The two strings that the static runtime has even without kernels.
	static := `__attribute__((used)) static const char *const names[] = {"libcuda.so.1", "cudaErrorMemoryAllocation"};` +
		` const char *name(int i) { return names[i]; } int main(int n, char **v) { return name(n - 1)[0] == 0; }`
	lib := "-Wl,-rpath,$ORIGIN/lib,--no-as-needed,-rpath-link," + w.path("lib")
	for _, c := range []struct {
		name, source string
		flags        []string
		want         Program
	}{
		{"plain", emptyMain, nil, Program{}},
		{"shared", registers + kernelMain, []string{lib, cudart}, Program{Runtime: Shared, Object: "shared"}},
		{"through-a-library", emptyMain, []string{lib, "-Llib", "-lshared"}, Program{Runtime: Shared, Object: "lib/libshared.so"}},
		// The program has kernels; a shared library has the runtime.
		{"kernels-here", registers + kernelMain, []string{lib, "-Llib", "-lshared", "-Wl,--unresolved-symbols=ignore-all"},
			Program{Runtime: Shared, Object: "lib/libshared.so"}},
		{"static", ownRuntime + kernelMain, nil, Program{Runtime: Static, Object: "static"}},
		{"stripped", ownRuntime + kernelMain, []string{"-s"}, Program{Runtime: Static, Object: "stripped"}},
		{"no-kernels", static, []string{"-s"}, Program{Runtime: Static, Object: "no-kernels"}},
		{"static-library", emptyMain, []string{lib, "-Llib", "-lownruntime"}, Program{Runtime: Static, Object: "lib/libownruntime.so"}},
		// As cuBLAS, whose own runtime says nothing about the program's calls.
		{"shared-beside-static", registers + kernelMain, []string{lib, "-Llib", "-lownruntime", cudart}, Program{Runtime: Shared, Object: "shared-beside-static"}},
		{"driver", emptyMain, []string{lib, "lib/libcuda.so.1"}, Program{Runtime: Driver, Object: "driver"}},
		{"asks-itself", ownRuntime + ` char *getenv(const char *); int main(void) { kernel(); return !getenv("CASE_SOCKET"); }`, nil,
			Program{Runtime: Static, Object: "asks-itself", TaskAPI: true}},
		{"asks-through-library", emptyMain, []string{lib, "-Llib", "-lcase"}, Program{TaskAPI: true}},
		{"no-loader", ownRuntime + ` void _start(void) { kernel(); for (;;); }`, []string{"-static", "-nostdlib"},
			Program{Runtime: Static, Object: "no-loader", Unpreloadable: "it is statically linked, without a loader"}},
		{"musl", emptyMain, []string{"-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"},
			Program{Unpreloadable: "it is linked with musl, and libcase.so with glibc"}},
	} {
		path := w.build(c.name, c.source, c.flags...)
		if c.want.Object != "" {
			c.want.Object = w.path(c.want.Object)
		}
		got, err := Inspect(path, nil)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
}

// Every rule of the loader must find the library, and no rule may find a wrong one.
func TestLibrariesAreFoundAsTheLoaderFindsThem(t *testing.T) {
	w := newWorkshop(t)
	cudart := w.library("cuda/libcudart.so.11.0", runtimeSource)
	w.library("near/libinner.so", registers, cudart)
	w.library("near/libouter.so", `int outer;`, "-Wl,--no-as-needed,-rpath-link,cuda", "-Lnear", "-linner")
	flags := []string{"-Wl,--no-as-needed,-rpath-link,near:cuda", "-Lnear", "-louter"}
	with := func(extra string) []string { return append(flags, extra) }
	for _, c := range []struct {
		name        string
		flags       []string
		libraryPath []string
		want        Runtime
	}{
		{"nowhere", flags, nil, NoneVisible},
		{"environment", flags, []string{w.path("empty"), w.path("near")}, Shared},
		// DT_RPATH applies to libraries of libraries too, DT_RUNPATH only to the object itself.
		{"rpath", with("-Wl,--disable-new-dtags,-rpath,$ORIGIN/near"), nil, Shared},
		{"runpath", with("-Wl,--enable-new-dtags,-rpath,${ORIGIN}/near"), nil, NoneVisible},
	} {
		got, err := Inspect(w.build(c.name, emptyMain, c.flags...), c.libraryPath)
		if err != nil || got.Runtime != c.want {
			t.Errorf("%s: %+v, %v, want runtime %d", c.name, got, err, c.want)
		}
	}
	// DT_RUNPATH of a library overrides the DT_RPATH of the object that loaded it.
	w.library("astray/libouter.so", `int outer;`, "-Wl,--no-as-needed,--enable-new-dtags,-rpath,$ORIGIN/none,-rpath-link,cuda", "-Lnear", "-linner")
	path := w.build("astray-main", emptyMain, "-Wl,--no-as-needed,--disable-new-dtags,-rpath,$ORIGIN/near,-rpath-link,near:cuda", "-Lastray", "-louter")
	if got, err := Inspect(path, []string{w.path("astray")}); err != nil || got.Runtime != Shared {
		t.Errorf("with libouter of near: %+v, %v", got, err) // DT_RPATH goes before LD_LIBRARY_PATH
	}
	if err := os.Rename(w.path("near/libouter.so"), w.path("near/elsewhere.so")); err != nil {
		t.Fatal(err)
	}
	if got, err := Inspect(path, []string{w.path("astray")}); err != nil || got.Runtime != NoneVisible {
		t.Errorf("with libouter of astray: %+v, %v", got, err)
	}
	if err := os.Rename(w.path("near/elsewhere.so"), w.path("near/libouter.so")); err != nil {
		t.Fatal(err)
	}
	// A file with the library's name that the loader would skip.
	if err := os.MkdirAll(w.path("wrong"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path("wrong/libouter.so"), []byte("/* GNU ld script */"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.path("queue"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(w.path("queue/libouter.so"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := Inspect(w.path("environment"), []string{w.path("wrong"), w.path("queue"), w.path("near")})
	if err != nil || got.Runtime != Shared {
		t.Errorf("behind a file that is no library: %+v, %v", got, err)
	}
}

func TestWhatIsNoELFProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"script": "#!/bin/sh\nexec true\n", "empty": "", "cut": "\x7fELF\x02\x01\x01"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := Inspect(path, nil); err != nil || got != (Program{}) {
			t.Errorf("%s: %+v, %v, want nothing visible", name, got, err)
		}
	}
	missing := filepath.Join(dir, "missing")
	if _, err := Inspect(missing, nil); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing program: %v", err)
	}
}

// A program that gains privileges when it starts is not preloaded. A setuid program that belongs
// to the user gains none.
func TestSetuidProgram(t *testing.T) {
	w := newWorkshop(t)
	path := w.build("setuid", emptyMain)
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if got, err := Inspect(path, nil); err != nil || got.Unpreloadable != "" {
		t.Errorf("one's own setuid program: %+v, %v", got, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := unix.Chown(path, 65534, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	if got, err := Inspect(path, nil); err != nil || got.Unpreloadable != "it is setuid" {
		t.Errorf("somebody else's setuid program: %+v, %v", got, err)
	}
}

// Strings that cross the boundary between two pieces are found.
func TestScanAcrossPieces(t *testing.T) {
	for _, at := range []int{0, scanBytes - 6, scanBytes - 1, scanBytes + 3, 2*scanBytes - 3, 3 * scanBytes} {
		text := strings.Repeat("x", at) + taskMarker + strings.Repeat("y", scanBytes/2)
		found := map[string]bool{}
		if err := scan(strings.NewReader(text), []string{taskMarker, "absent"}, found); err != nil || !found[taskMarker] || found["absent"] {
			t.Errorf("at %d: %v, %v", at, found, err)
		}
	}
}

func TestSystemCache(t *testing.T) {
	cache := func(count int) []byte {
		name, path := "libx.so.1", "/opt/x/libx.so.1"
		b := append([]byte("older table"), cacheMagic...)
		b = append(b, byte(count), 0, 0, 0)
		b = append(b, make([]byte, cacheHeader-len(cacheMagic)-4)...)
		strings := uint32(cacheHeader + cacheEntry)
		entry := make([]byte, cacheEntry)
		entry[4], entry[8] = byte(strings), byte(strings)+byte(len(name))+1
		return append(append(b, entry...), name+"\x00"+path+"\x00"...)
	}
	if got := parseCache(cache(1)); fmt.Sprint(got) != "map[libx.so.1:[/opt/x/libx.so.1]]" {
		t.Errorf("cache %v", got)
	}
	whole := cache(200) // claims more entries than it has
	for n := range whole {
		parseCache(whole[:n]) // must not panic
	}
	if got := parseCache([]byte("something else")); got != nil {
		t.Errorf("no cache: %v", got)
	}
	if _, err := os.Stat("/etc/ld.so.cache"); err != nil {
		t.Skip("this system has no ld.so.cache")
	}
	if len(systemCache()["libc.so.6"]) == 0 {
		t.Error("the C library is not in the system's cache")
	}
}
