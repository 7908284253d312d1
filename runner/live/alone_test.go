package live

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/profiles"
)

// A job runs without the tracer and then with it, or once with it. What the tracer leaves reaches its
// profile, with what is missing.
func TestProfileOfATracedJob(t *testing.T) {
	t.Run("two runs", func(t *testing.T) { profilesTraced(t, false, "traced:\ntraced:yes\n") })
	t.Run("once", func(t *testing.T) { profilesTraced(t, true, "traced:yes\n") })
}

func profilesTraced(t *testing.T, once bool, runs string) {
	t.Helper()
	sample, err := filepath.Abs("../../native/tracer/testdata/sample.trace")
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	a := onPaper(t, mixes.Job{Name: "traced", Program: "/bin/sh", Args: []string{"-c",
		`echo "traced:${CASE_TRACE_DIR:+yes}" >>"$1"; test -z "$CASE_TRACE_DIR" || cp "$0" "$CASE_TRACE_DIR/1.trace"`, sample, log}})
	for i := range a.id {
		a.id[i] = 0xa0 + byte(i) // the sample's device
	}
	a.tracer, a.Once = "/nowhere/libcasetrace.so", once // no CUDA here that would load it
	found, err := profilesOf(t.Context(), a)
	if err != nil || len(found) != 1 {
		t.Fatalf("profiles %+v, %v", found, err)
	}
	if said, err := os.ReadFile(log); err != nil || string(said) != runs {
		t.Errorf("its runs: %q, %v", said, err)
	}
	got := found[0]
	if got.Kernels != profiles.Estimated || got.CopyInBytes != 5<<30 || got.KernelS < 549e-9 || got.KernelS > 551e-9 || got.Footprint.ThreadsPerBlock != 1024 {
		t.Errorf("%+v, want the sample's 5 GiB in, 550 ns and records lost", got)
	}
	if len(got.KernelPhases) != 1 || got.KernelPhases[0].SMs < 1 || got.KernelPhases[0].SMs > 2 || got.Rounds != 1 {
		t.Errorf("phases %+v in %d rounds, want one of the grid of six blocks, which fill one SM and a half, and a set of memory", got.KernelPhases, got.Rounds)
	}
}
