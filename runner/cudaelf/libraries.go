package cudaelf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/userfile"
)

// loaded is an object and the directories in which its libraries may be.
type loaded struct {
	path      string
	object    object
	inherited []string // DT_RPATH of the objects that loaded it
}

// libraries returns the program and its libraries, direct and indirect, breadth first. It finds
// them as ld.so(8) does.
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

// search looks for the libraries of one program.
type search struct {
	file        *elf.File // libraries must have its class and machine
	libraryPath []string
	cache       map[string][]string
}

// systemDirs are the loader's default directories, including Debian's.
var systemDirs = []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}

// find looks for a library in the order of ld.so(8):
//  1. DT_RPATH of the object and of the objects that loaded it, unless the object has DT_RUNPATH;
//  2. LD_LIBRARY_PATH;
//  3. DT_RUNPATH;
//  4. the cache;
//  5. the default directories.
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

// open opens a file if the loader would accept it.
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

// systemCache returns the cache that ldconfig wrote; it is empty on a system without ldconfig.
func systemCache() map[string][]string {
	data, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		return nil
	}
	return parseCache(data)
}

// The cache's layout is from glibc's sysdeps/generic/dl-cache.h: a header of 48 bytes, entries of
// 24 bytes, and strings. Offsets of strings count from the header. The cache may follow a table of
// the older format.
const (
	cacheMagic  = "glibc-ld.so.cache1.1"
	cacheHeader = 48
	cacheEntry  = 24
)

// parseCache returns paths by library name. It leaves out malformed entries.
func parseCache(data []byte) map[string][]string {
	at := bytes.Index(data, []byte(cacheMagic))
	if at < 0 || len(data)-at < cacheHeader {
		return nil
	}
	data = data[at:]
	text := func(offset uint32) string {
		if uint64(offset) >= uint64(len(data)) {
			return ""
		}
		s, _, _ := bytes.Cut(data[offset:], []byte{0})
		return string(s)
	}
	out := map[string][]string{}
	count := binary.NativeEndian.Uint32(data[len(cacheMagic):])
	for e := data[cacheHeader:]; count > 0 && len(e) >= cacheEntry; e, count = e[cacheEntry:], count-1 {
		name, path := text(binary.NativeEndian.Uint32(e[4:])), text(binary.NativeEndian.Uint32(e[8:]))
		if name != "" && path != "" {
			out[name] = append(out[name], path)
		}
	}
	return out
}
