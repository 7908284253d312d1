// Package cudaelf finds out, before a program starts, how the program reaches the CUDA runtime:
// through libcudart, which a preloaded library can replace, or directly. It only reads ELF files.
package cudaelf

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Runtime says how a program calls CUDA, as far as its files show.
type Runtime uint8

const (
	// NoneVisible is a script, a program without CUDA, or a program that loads CUDA at run time
	// (python).
	NoneVisible Runtime = iota
	// Shared is a program that is linked with libcudart.so, directly or through a library.
	Shared
	// Static is a program with the runtime linked into it: nvcc's default, -cudart static.
	Static
	// Driver is a program that is linked only with libcuda.so and calls the driver directly.
	Driver
)

// Program is what is known about a program before it runs.
type Program struct {
	Runtime Runtime
	// Object is the file that decided Runtime: the program or one of its libraries.
	Object string
	// TaskAPI says that the program calls the task API itself (native/probe/case.h).
	TaskAPI bool
	// Unpreloadable says why LD_PRELOAD does not intercept the program's own calls; "" if it
	// does.
	Unpreloadable string
}

// registerFatBinary is the function with which code from nvcc registers its kernels when it is
// loaded. An object with kernels that does not import the function has a runtime of its own.
const registerFatBinary = "__cudaRegisterFatBinary"

// fatBinary is the section with an object's device code.
const fatBinary = ".nv_fatbin"

// staticMarkers are strings of the static runtime that remain whatever the linker drops: the
// driver that it loads, and an error's name (checked with CUDA 11.8).
var staticMarkers = []string{"libcuda.so.1\x00", "cudaErrorMemoryAllocation\x00"}

// taskMarker is the environment variable by which libcase.a finds the scheduler.
const taskMarker = "CASE_SOCKET\x00"

// Inspect reads a program and its libraries. libraryPath has the directories of the program's
// LD_LIBRARY_PATH. It skips a library that it does not find, because the loader reports missing
// libraries better.
func Inspect(path string, libraryPath []string) (Program, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Program{}, fmt.Errorf("inspect program: %w", err)
	}
	f, err := elf.Open(real)
	var malformed *elf.FormatError
	if errors.Is(err, io.EOF) || errors.As(err, &malformed) {
		return Program{}, nil // a script: the kernel starts its interpreter
	}
	if err != nil {
		return Program{}, fmt.Errorf("inspect program: %w", err)
	}
	defer f.Close()
	var p Program
	if p.Unpreloadable, err = unpreloadable(real, f); err != nil {
		return Program{}, fmt.Errorf("inspect program: %w", err)
	}
	main, err := examine(f)
	if err != nil {
		return Program{}, fmt.Errorf("inspect program %s: %w", path, err)
	}
	markers, err := findStrings(f, append([]string{taskMarker}, staticMarkers...))
	if err != nil {
		return Program{}, fmt.Errorf("inspect program %s: %w", path, err)
	}
	p.TaskAPI = markers[taskMarker] || main.needs("libcase.so")
	if main.ownRuntime() || !main.needs("libcudart.so") && !main.callsRuntime && markers[staticMarkers[0]] && markers[staticMarkers[1]] {
		p.Runtime, p.Object = Static, path
		return p, nil
	}
	p.Runtime, p.Object = closure(real, f, main, libraryPath)
	return p, nil
}

// closure decides from the program and all its libraries. The shared runtime takes precedence over
// a library with its own runtime, such as NVIDIA's cuBLAS, because the program's own calls matter.
func closure(path string, f *elf.File, main object, libraryPath []string) (Runtime, string) {
	runtime, decided := NoneVisible, ""
	for at, o := range libraries(path, f, main, libraryPath) {
		switch {
		case o.needs("libcudart.so"):
			return Shared, at
		case o.ownRuntime():
			runtime, decided = Static, at
		case o.needs("libcuda.so") && runtime == NoneVisible:
			runtime, decided = Driver, at
		}
	}
	return runtime, decided
}

// object is what one ELF file shows.
type object struct {
	needed       []string
	rpath        []string
	runpath      []string
	kernels      bool // it has device code
	callsRuntime bool // it imports registerFatBinary
}

func (o object) ownRuntime() bool { return o.kernels && !o.callsRuntime && !o.needs("libcudart.so") }

// needs reports whether the object needs a library of that name, in any version.
func (o object) needs(name string) bool {
	return slices.ContainsFunc(o.needed, func(n string) bool {
		base := filepath.Base(n)
		return base == name || strings.HasPrefix(base, name+".")
	})
}

func examine(f *elf.File) (object, error) {
	var o object
	var err error
	if o.needed, err = f.DynString(elf.DT_NEEDED); err != nil {
		return o, fmt.Errorf("read the libraries it needs: %w", err)
	}
	if o.rpath, err = paths(f, elf.DT_RPATH); err != nil {
		return o, err
	}
	if o.runpath, err = paths(f, elf.DT_RUNPATH); err != nil {
		return o, err
	}
	if o.kernels = f.Section(fatBinary) != nil; !o.kernels {
		return o, nil
	}
	imported, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return o, fmt.Errorf("read the symbols it imports: %w", err)
	}
	o.callsRuntime = slices.ContainsFunc(imported, func(s elf.ImportedSymbol) bool { return s.Name == registerFatBinary })
	return o, nil
}

func paths(f *elf.File, tag elf.DynTag) ([]string, error) {
	lists, err := f.DynString(tag)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", tag, err)
	}
	var out []string
	for _, list := range lists {
		out = append(out, filepath.SplitList(list)...)
	}
	return out, nil
}

// unpreloadable returns the reason why LD_PRELOAD has no effect; empty if it has one:
//   - there is no loader, or the loader is musl's;
//   - the program gains privileges when it starts (ld.so(8), secure-execution mode);
//   - the preloaded library is for another kind of machine.
func unpreloadable(path string, f *elf.File) (string, error) {
	if f.Class != elf.ELFCLASS64 {
		return "it is a 32-bit program", nil
	}
	at := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if at < 0 {
		return "it is statically linked, without a loader", nil
	}
	loader, err := io.ReadAll(io.LimitReader(f.Progs[at].Open(), unix.PathMax))
	if err != nil {
		return "", fmt.Errorf("read the name of its loader: %w", err)
	}
	if strings.HasPrefix(filepath.Base(string(loader)), "ld-musl-") {
		return "it is linked with musl, and libcase.so with glibc", nil
	}
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case s.Mode&unix.S_ISUID != 0 && int(s.Uid) != os.Geteuid():
		return "it is setuid", nil
	case s.Mode&unix.S_ISGID != 0 && int(s.Gid) != os.Getegid():
		return "it is setgid", nil
	}
	if _, err := unix.Getxattr(path, "security.capability", nil); err == nil && os.Geteuid() != 0 {
		return "it has file capabilities", nil
	}
	return "", nil
}

// findStrings searches the program's constants for strings.
func findStrings(f *elf.File, want []string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_PROGBITS || !strings.HasPrefix(s.Name, ".rodata") {
			continue
		}
		if err := scan(s.Open(), want, found); err != nil {
			return nil, fmt.Errorf("read %s: %w", s.Name, err)
		}
	}
	return found, nil
}

const scanBytes = 1 << 20

// scan reads in pieces that overlap by the length of the longest string.
func scan(r io.Reader, want []string, found map[string]bool) error {
	overlap := 0
	for _, w := range want {
		overlap = max(overlap, len(w))
	}
	buffer, kept := make([]byte, scanBytes+overlap), 0
	for {
		n, err := io.ReadFull(r, buffer[kept:])
		text := string(buffer[:kept+n])
		for _, w := range want {
			found[w] = found[w] || strings.Contains(text, w)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		kept = copy(buffer, buffer[kept+n-overlap:kept+n])
	}
}
