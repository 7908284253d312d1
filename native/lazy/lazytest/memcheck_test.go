//go:build valgrind

package lazytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/runner/probe"
)

// valgrind is the program.
func valgrind(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("valgrind")
	if err != nil {
		t.Fatalf("%v: install valgrind", err)
	}
	return path
}

// underMemcheck has the program run under valgrind's memcheck, which writes what it finds to the log.
func (p *lazyRun) underMemcheck(path string) (log string) {
	log = filepath.Join(p.t.TempDir(), "log")
	p.cmd.Path, p.cmd.Args = path, append([]string{"valgrind", "--quiet", "--log-file=" + log}, p.cmd.Args...)
	return log
}

func wantNothingFound(t *testing.T, log string) {
	t.Helper()
	if said, err := os.ReadFile(log); err != nil || len(said) > 0 {
		t.Errorf("%v\n%s", err, said)
	}
}

// The library is loaded into programs of everyone's, so it must not touch memory
// that is not its own: valgrind's memcheck says so.
func TestLazyUnderMemcheck(t *testing.T) {
	path := valgrind(t)
	// As gcov says, these run each line of the lazy runtime that all programs run. The soak takes all.
	few := []string{"basic", "order", "shapes", "objects", "threads", "handles_in_threads", "churn", "reset", "launch_only", "settings",
		"captured", "freed_in_capture", "free_while_captured", "limits", "mistakes", "forks_bound",
		"reuse event", "reuse stream_query", "reuse free", "waits event_query", "callback",
		"host_freed_in_capture", "registered_before_reset", "variable_by_address", "wrong pitch",
		"beyond unbound", "beyond_boxes", "last_errors"}
	for _, program := range programs {
		if chance.Seed() == 0 && !slices.Contains(few, program) {
			continue
		}
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := prepareLazy(t, "13", "lazy_program", program)
			log := p.underMemcheck(path)
			p.start().finish(grant).wantNative()
			wantNothingFound(t, log)
		})
	}
}

// The same while memory is taken.
func TestLazyUnderMemcheckWhenMemoryIsTaken(t *testing.T) {
	path := valgrind(t)
	all := []string{"threads", "captured", "random 40001,2,1", "basic", "churn", "reset"}
	for n, program := range all[:chance.Count(3, len(all))] {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			var log string
			p, k := newTaker(t, chance.Seed()+uint64(n), 2<<20, func(s *probe.Server, r recorder) *lazyRun {
				p := prepareLazyAt(t, s, r, "13", "lazy_program", program, movable)
				log = p.underMemcheck(path)
				return p
			})
			p.finish(k.answer).wantNative()
			wantNothingFound(t, log)
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
		})
	}
}
