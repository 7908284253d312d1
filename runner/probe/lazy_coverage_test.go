package probe

import (
	"bufio"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every function of the CUDA runtime that needs a device is overridden: one that is
// not would look for its device, and for memory, past the lazy runtime.
func TestLazyCoversTheRuntime(t *testing.T) {
	buildLazy(t)
	library, err := elf.Open(filepath.Join(lazyDir, "libcase.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			ours = append(ours, s.Name)
		}
	}
	list, err := os.Open(filepath.Join(lazyDir, "testdata/cudart.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	functions := 0
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		functions++
		name, free := strings.CutSuffix(lines.Text(), " -")
		if slices.Contains(ours, name) == free {
			t.Errorf("%s: needs a device: %v, overridden: %v", name, !free, free)
		}
	}
	if functions < 400 {
		t.Errorf("%d functions in the list", functions)
	}
}
