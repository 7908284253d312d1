package lazytest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Programs of native/lazy/tests/programs/locations.cc: devices and memory locations in
// what came with CUDA 12 and 13.

// traced is what the fake runtime was given: the matches in its trace of calls.
func traced(t *testing.T, version, program, pattern string, env ...string) []string {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	runLazy(t, version, program, append(env, "FAKE_CUDA_TRACE="+trace)...)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?m)^"+pattern+"$").FindAllString(string(text), -1)
}

func TestLazyTranslatesLocations(t *testing.T) {
	for _, env := range [][]string{nil, {"CASE_PIN=1"}} {
		for _, version := range cudaVersions {
			for _, program := range []string{"batches", "prefetches", "execution_contexts", "questions", "init_flags"} {
				t.Run(strings.Join(append(env, version, program), "/"), func(t *testing.T) {
					p := runLazy(t, version, program, env...)
					p.wantNative()
					p.wantNothingLeft()
				})
			}
		}
	}
}

// A batch says where memory is as CUDA knows it; its stream is the real one, with
// the parameters of either version.
func TestLazyPlacesBatches(t *testing.T) {
	for _, version := range cudaVersions {
		want := []string{"cudaMemcpyBatchAsync 2 2:0>1:1,1:1>1:1", "cudaMemcpy3DBatchAsync 2 1:1>1:1,1:1>1:1"}
		if version == "13" {
			want = append(want, "cudaMemcpyWithAttributesAsync 1 1:1>1:1", "cudaMemcpy3DWithAttributesAsync 1 1:1>1:1")
		}
		if got := traced(t, version, "batches", `cudaMemcpy\w*(Batch|With)\w* .*`); !slices.Equal(got, want) {
			t.Errorf("%s: copies %q, want %q", version, got, want)
		}
	}
	want := []string{"cudaMemPrefetchBatchAsync 2 2:0,1:1", "cudaMemDiscardAndPrefetchBatchAsync 2 1:1", "cudaMemDiscardBatchAsync 2 "}
	if got := traced(t, "13", "prefetches", `cudaMem(Prefetch|Discard)\w* .*`); !slices.Equal(got, want) {
		t.Errorf("prefetches %q, want %q", got, want)
	}
}

// A batch binds with what is known: the allocations and what was recorded.
func TestLazyBindsAtBatches(t *testing.T) {
	for _, version := range cudaVersions {
		p := runLazy(t, version, "batches")
		p.wantLine("before: contexts 0 first -1 allocations 0 handles 0 mappings 0 reservations 1 violations 0")
		if r := p.of("begin")[0]; r.Bytes != 2<<20 || r.Asks().Blocks != 0 {
			t.Errorf("%s: begin %+v", version, r)
		}
	}
}

// What a program under task binding names that it does not see is no device of the
// run's, where the scheduler granted another than the first.
func TestLazyShowsNoOtherDevice(t *testing.T) {
	for device, want := range [][]string{
		{"a copy 101", "another device 101", "part of a device 0"}, // cudaErrorInvalidDevice
		{"a copy 101", "another device 101", "part of a device 1"}, // cudaErrorInvalidValue
	} {
		p := startLazy(t, "13", "unseen_devices", "FAKE_CUDA_DEVICES=3").finish(func(t *testing.T, e event) {
			if e.Kind != "begin" && e.Kind != "grow" {
				return
			}
			if err := e.grant(device, fakeUUID(device)); err != nil {
				t.Errorf("grant: %v", err)
			}
		})
		p.mustSucceed()
		if got := results(p.lines); !slices.Equal(got, want) {
			t.Errorf("granted %d: output %q, want %q", device, got, want)
		}
		p.wantNothingLeft()
	}
}

// Flags that come with the choice of a device wait for it.
func TestLazyKeepsDeviceFlags(t *testing.T) {
	for _, version := range cudaVersions {
		if got := traced(t, version, "init_flags", "cudaSetDeviceFlags .*"); !slices.Equal(got, []string{"cudaSetDeviceFlags 4"}) {
			t.Errorf("%s: %q", version, got)
		}
	}
}
