package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// valgrind is the program, or a skip. CASERUN_REQUIRE_VALGRIND says that there must be one.
func valgrind(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("valgrind")
	if err != nil {
		if os.Getenv("CASERUN_REQUIRE_VALGRIND") != "" {
			t.Fatal(err)
		}
		t.Skipf("no valgrind: %v", err)
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
// that is not its own: valgrind's memcheck says so of every program.
func TestLazyUnderMemcheck(t *testing.T) {
	path := valgrind(t)
	for _, program := range programs {
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
	for n, program := range []string{"basic", "threads", "churn", "captured", "reset", "random 40001,2,1"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			var log string
			p, k := newTaker(t, uint64(n), 2<<20, func(s *Server, r recorder) *lazyRun {
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
