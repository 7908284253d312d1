package lazytest

import (
	"debug/elf"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// exports are the functions that a library has for others.
func exports(t *testing.T, parts ...string) map[string]bool {
	t.Helper()
	library, err := elf.Open(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			all[s.Name] = true
		}
	}
	return all
}

// The library overrides what native/calls/cuda.calls says, and nothing else: a function of the CUDA runtime
// that is not overridden would look for its device, and for memory, past the lazy runtime.
func TestLazyCoversTheRuntime(t *testing.T) {
	buildLazy(t)
	ours, calls := exports(t, lazyDir, "libcase.so"), nativetest.Calls(t)
	for name, kind := range calls {
		if over := kind != "none" && kind != "harmless"; ours[name] != over {
			t.Errorf("%s is %s, overridden: %v", name, kind, ours[name])
		}
	}
	of := regexp.MustCompile("^(__)?cu(da)?[A-Z]")
	for name := range ours {
		if _, known := calls[name]; !known && of.MatchString(name) {
			t.Errorf("%s is overridden, and not in native/calls/cuda.calls", name)
		}
	}
	if len(calls) < 600 {
		t.Errorf("%d functions in the table", len(calls))
	}
}

// Programs of the fakes call nothing that nobody has classified.
func TestLazyKnowsTheFakesFunctions(t *testing.T) {
	buildLazy(t)
	calls := nativetest.Calls(t)
	for _, runtime := range []string{"build/13/libcudart.so.13", "build/11/libcudart.so.11.0"} {
		for name := range exports(t, fakeDir, runtime) {
			if _, known := calls[name]; !known && name != "libcudart.so.11.0" && name != "libcudart.so.13" {
				t.Errorf("%s has %s, which is not in native/calls/cuda.calls", runtime, name)
			}
		}
	}
}
