package cudaelf

import (
	"debug/elf"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/userfile"
)

// loaded is an object with where its own libraries may be.
type loaded struct {
	path      string
	object    object
	inherited []string // DT_RPATH of what loaded it
}

// libraries are the program and everything it names, breadth first, as ld.so(8)
// looks them up.
func libraries(path string, f *elf.File, main object, libraryPath []string) iter.Seq2[string, object] {
	return func(yield func(string, object) bool) {
		s := search{file: f, libraryPath: libraryPath, cache: systemCache()}
		queue := []loaded{{path: path, object: main}}
		seen := map[string]bool{}
		for len(queue) > 0 {
			l := queue[0]
			queue = queue[1:]
			if !yield(l.path, l.object) {
				return
			}
			for _, name := range l.object.needed {
				if seen[name] {
					continue
				}
				seen[name] = true
				if next, ok := s.find(l, name); ok {
					queue = append(queue, next)
				}
			}
		}
	}
}

// search is where libraries of one program are looked for.
type search struct {
	file        *elf.File // its class and machine are what a library must have
	libraryPath []string
	cache       map[string][]string
}

// Directories that the loader knows by itself, Debian's among them.
var systemDirs = []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}

// find follows ld.so(8): DT_RPATH of the object and of what loaded it, unless
// it has DT_RUNPATH; LD_LIBRARY_PATH; DT_RUNPATH; the cache; the system's.
func (s search) find(by loaded, name string) (loaded, bool) {
	origin := filepath.Dir(by.path)
	rpath := append(expand(by.object.rpath, origin), by.inherited...)
	if strings.ContainsRune(name, '/') {
		return s.open(name, rpath)
	}
	var dirs []string
	if len(by.object.runpath) == 0 {
		dirs = append(dirs, rpath...)
	}
	dirs = append(dirs, s.libraryPath...)
	dirs = append(dirs, expand(by.object.runpath, origin)...)
	candidates := slices.Clone(s.cache[name])
	for _, d := range systemDirs {
		candidates = append(candidates, filepath.Join(d, name))
	}
	for i, d := range dirs {
		dirs[i] = filepath.Join(d, name)
	}
	for _, path := range append(dirs, candidates...) {
		if l, ok := s.open(path, rpath); ok {
			return l, true
		}
	}
	return loaded{}, false
}

// open takes a file that the loader would take, too.
func (s search) open(path string, rpath []string) (loaded, bool) {
	if userfile.Check(path, 0) != nil {
		return loaded{}, false
	}
	f, err := elf.Open(path)
	if err != nil {
		return loaded{}, false
	}
	defer f.Close()
	if f.Class != s.file.Class || f.Machine != s.file.Machine || f.Type != elf.ET_DYN {
		return loaded{}, false
	}
	o, err := examine(f)
	return loaded{path: path, object: o, inherited: rpath}, err == nil
}

func expand(dirs []string, origin string) []string {
	var out []string
	for _, d := range dirs {
		d = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin, "$LIB", "lib", "${LIB}", "lib").Replace(d)
		if filepath.IsAbs(d) {
			out = append(out, d)
		}
	}
	return out
}

// systemCache is what ldconfig found, or empty on a system without it.
func systemCache() map[string][]string {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		return nil
	}
	return parseCache(data)
}
