package nativetest

import (
	"debug/elf"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rooms are the directories of native with what their files may include beside their own, from the bottom up
// (docs/design/architecture.md). A room ends where another begins below it.
var rooms = []struct {
	dir   string
	lower []string
}{
	{"probe", nil},
	{"probe/tests", []string{"probe"}},
	{"probe/bench", []string{"probe"}},
	{"lazy/abi", []string{"probe"}},
	{"lazy/linked", []string{"probe", "lazy/abi"}},
	{"lazy/program", []string{"probe", "lazy/abi"}},
	{"lazy/device", []string{"probe", "lazy/abi", "lazy/program"}},
	{"lazy/memory", []string{"probe", "lazy/abi", "lazy/program", "lazy/device"}},
	{"lazy/task", []string{"probe", "lazy/abi", "lazy/program", "lazy/device", "lazy/memory"}},
	{"lazy/launch", []string{"probe", "lazy/abi", "lazy/program", "lazy/device", "lazy/memory", "lazy/task"}},
	{"lazy/runtime", []string{"probe", "lazy/abi", "lazy/program", "lazy/device", "lazy/memory", "lazy/task", "lazy/launch"}},
	{"lazy/driver", []string{"probe", "lazy/abi", "lazy/program", "lazy/device", "lazy/memory", "lazy/task", "lazy/launch"}},
	{"fake", []string{"lazy/abi"}},
	{"lazy/tests", []string{"probe", "lazy/program", "lazy/memory", "fake"}},
	{"nvml", nil},
	{"tracer", nil},
	{"ballast", nil},
	{"stop", nil},
	{"ivm", nil},
	{"ivm/tests", []string{"ivm"}},
	{"pass", nil},
	{"pass/tests", []string{"probe", "fake"}},
}

// room is the index of the room that a file of native is in, -1 if it is in none.
func room(file string) int {
	found := -1
	for i, r := range rooms {
		if strings.HasPrefix(file, r.dir+"/") && (found < 0 || len(r.dir) > len(rooms[found].dir)) {
			found = i
		}
	}
	return found
}

var included = regexp.MustCompile(`(?m)^\s*#\s*include "([^"]+)"`)

// resolve finds what a file includes: beside it, in its part, or in native.
func resolve(file, name string) string {
	part, _, _ := strings.Cut(file, "/")
	for _, dir := range []string{filepath.Dir(file), part, "."} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(native, path)); err == nil {
			return path
		}
	}
	return ""
}

func TestIncludesGoDown(t *testing.T) {
	arrows, used := 0, make([]bool, len(rooms))
	err := filepath.WalkDir(native, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "build" || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".c", ".cc", ".h", ".S", ".def"}, filepath.Ext(path)) {
			return nil
		}
		file, err := filepath.Rel(native, path)
		if err != nil {
			return err
		}
		from := room(file)
		if from < 0 {
			t.Errorf("native/%s is in no room: give its directory one in rooms_test.go", file)
			return nil
		}
		used[from] = true
		text, err := os.ReadFile(path)
		for _, include := range included.FindAllSubmatch(text, -1) {
			name := string(include[1])
			target := resolve(file, name)
			if strings.HasPrefix(name, "llvm/") || strings.HasPrefix(name, "calls/") { // which make generates
				continue
			}
			if target == "" {
				t.Errorf("native/%s includes %q, which is nowhere", file, name)
				continue
			}
			arrows++
			to := room(target)
			if to != from && (to < 0 || !slices.Contains(rooms[from].lower, rooms[to].dir)) {
				t.Errorf("native/%s includes %s, which is not below it", file, target)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rooms {
		if !used[i] {
			t.Errorf("no file is in native/%s", r.dir)
		}
		for _, lower := range r.lower {
			if !slices.ContainsFunc(rooms[:i], func(before struct {
				dir   string
				lower []string
			}) bool {
				return before.dir == lower
			}) {
				t.Errorf("%s may include %s, which does not come before it", r.dir, lower)
			}
		}
	}
	if arrows < 400 {
		t.Errorf("only %d includes", arrows)
	}
}

// Functions that a file declares itself go down too: what one object uses of another. Only memory uses functions of a
// room above it, those of memory/account.h.
func TestSymbolsGoDown(t *testing.T) {
	lazy := Build(t, "lazy", "libcase.so")
	type object struct {
		file string
		uses []string
	}
	var objects []object
	defined := map[string]string{} // symbol: the file that has it
	for _, r := range rooms {
		part, name, _ := strings.Cut(r.dir, "/")
		if part != "lazy" || name == "linked" || name == "tests" {
			continue
		}
		sources, err := filepath.Glob(filepath.Join(lazy, name, "*.*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, source := range sources {
			if ext := filepath.Ext(source); ext != ".cc" && ext != ".S" {
				continue
			}
			o := object{file: r.dir + "/" + filepath.Base(source)}
			file, err := elf.Open(filepath.Join(lazy, "build", name, filepath.Base(source)+".o"))
			if err != nil {
				t.Fatal(err)
			}
			symbols, err := file.Symbols()
			file.Close()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range symbols {
				switch {
				case s.Section == elf.SHN_UNDEF:
					o.uses = append(o.uses, s.Name)
				case elf.ST_BIND(s.Info) == elf.STB_GLOBAL:
					defined[s.Name] = o.file
				}
			}
			objects = append(objects, o)
		}
	}
	arrows := 0
	for _, o := range objects {
		from := room(o.file)
		for _, symbol := range o.uses {
			target, ours := defined[symbol]
			if !ours || symbol == "dlopen" || strings.Contains(symbol, "4lazy7account") { // libc's, overridden; lazy::account
				continue
			}
			arrows++
			if to := room(target); to != from && !slices.Contains(rooms[from].lower, rooms[to].dir) {
				t.Errorf("native/%s uses %s of native/%s, which is not below it", o.file, symbol, target)
			}
		}
	}
	if arrows < 400 {
		t.Errorf("only %d symbols of other files are used", arrows)
	}
}
