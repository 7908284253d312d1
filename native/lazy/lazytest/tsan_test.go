//go:build tsan

package lazytest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/runner/probe"
)

// sanitized is the program with the library, the fakes and itself under the thread sanitizer.
func sanitized(t *testing.T, program string, env ...string) *lazyRun {
	t.Helper()
	s, r := start(t)
	return sanitizedAt(t, s, r, program, env...)
}

// sanitizerOptions has strings searched and measured unseen. The sanitizer cannot see the lock of the dynamic linker, under which it
// makes the names that dl_iterate_phdr shows. So it forgets who wrote a name, but not who wrote the 0 behind it, and reports a race
// where the name has a multiple of 8 bytes.
const sanitizerOptions = "intercept_strstr=0:intercept_strlen=0:log_path="

// sanitizedAt is sanitized for a server that there is.
func sanitizedAt(t *testing.T, s *probe.Server, r recorder, program string, env ...string) *lazyRun {
	t.Helper()
	nativetest.Build(t, "lazy", "tsan") // which fails where gcc has no thread sanitizer
	dir := absolute(t, lazyDir, "build/tsan")
	p := prepareLazyAt(t, s, r, "13", "lazy_program", program, append(env, "LD_LIBRARY_PATH="+dir, "LD_PRELOAD="+filepath.Join(dir, "libcase.so"),
		"TSAN_OPTIONS="+sanitizerOptions+"'"+filepath.Join(t.TempDir(), "races")+"'")...)
	p.cmd.Path = filepath.Join(dir, "lazy_program")
	return p
}

func (p *lazyRun) wantNoRaces() {
	p.t.Helper()
	for _, setting := range p.env {
		if log, ok := strings.CutPrefix(setting, "TSAN_OPTIONS="+sanitizerOptions); ok {
			logs, err := filepath.Glob(strings.Trim(log, "'") + ".*")
			if err != nil {
				p.t.Fatal(err)
			}
			for _, name := range logs {
				said, err := os.ReadFile(name)
				p.t.Errorf("%s: %v\n%s", p.program, err, said)
			}
		}
	}
	p.mustSucceed()
}

// The threads of a program call the library at once: the thread sanitizer finds no data race in
// it, nor in the fakes.
func TestLazyHasNoDataRace(t *testing.T) {
	for _, program := range []string{"threads", "churn", "objects_beside", "tasks_in_threads", "captures_own", "ordered_in_thread",
		"own_context_in_threads", "handles_in_threads", "in_flight callback", "in_flight after_wait", "random 5,4,4", "random 150,12,3"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			sanitized(t, program).start().finish(grant).wantNoRaces()
		})
	}
}

// The same on an instance of MIG, whose driver starts while other threads allocate.
func TestLazyInstanceHasNoDataRace(t *testing.T) {
	for _, program := range []string{"threads", "churn", "objects_beside"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			sanitized(t, program, onSplitNode("FAKE_CUDA_INIT_MS=20")...).start().finish(grant).wantNoRaces()
		})
	}
}

// The same where streams execute by themselves, in threads of the fakes.
func TestLazyHasNoDataRaceWhereStreamsExecute(t *testing.T) {
	for _, program := range []string{"threads", "tasks_in_threads", "random 5,4,4"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			sanitized(t, program, "FAKE_CUDA_KERNEL_US=30").start().finish(grant).wantNoRaces()
		})
	}
}

// One thread waits for more memory while another uses what is left.
func TestLazyHasNoDataRaceWhileItGrows(t *testing.T) {
	p := sanitized(t, "grow_waits").start()
	grant(t, p.r.next(t, "begin"))
	p.hear("bound")
	p.goOn()
	p.hear("asked")
	waiting := p.r.next(t, "grow")
	p.goOn()
	p.hear("meanwhile 2")
	grant(t, waiting)
	p.hear("grown 1")
	p.finish(grant)
	p.wantNoRaces()
}

// The thread sanitizer finds no data race where memory can move.
func TestLazyMovableHasNoDataRace(t *testing.T) {
	for _, program := range []string{"threads", "churn", "objects_beside", "random 5,4,4", "random 150,12,3"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			sanitized(t, program, movable).start().finish(grant).wantNoRaces()
		})
	}
}

// The thread that serves revocations makes no data race with the program's.
func TestLazyHasNoDataRaceWhenMemoryIsTaken(t *testing.T) {
	for n, program := range []string{"threads", "churn", "tasks_in_threads", "captures_own", "in_flight callback", "random 5,1,4", "random 40001,4,1"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			env := []string{movable}
			if strings.HasPrefix(program, "random 4") {
				env = append(env, "FAKE_CUDA_KERNEL_US=30")
			}
			p, k := newTaker(t, uint64(n), 2<<20, func(s *probe.Server, r recorder) *lazyRun { return sanitizedAt(t, s, r, program, env...) })
			p.finish(k.answer).wantNoRaces()
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
		})
	}
}

// Nor when the process goes to other devices.
func TestLazyHasNoDataRaceWhenItMoves(t *testing.T) {
	for n, program := range []string{"threads", "churn", "handles_in_threads", "ordered_in_thread", "tasks_in_threads", "random 60001,8,1"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p, k := newTaker(t, uint64(n), 2<<20, func(s *probe.Server, r recorder) *lazyRun {
				return sanitizedAt(t, s, r, program, movable, "FAKE_CUDA_KERNEL_US=100")
			})
			k.moves = true
			p.finish(k.answer).wantNoRaces()
			t.Logf("%d moves", k.moved)
		})
	}
}

// The threads of programs that ask for tasks themselves call the library at once: no data race.
func TestExplicitTasksHaveNoDataRace(t *testing.T) {
	for _, program := range []string{"four", "mixed", "many", "helped"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := sanitized(t, program)
			p.cmd.Path = filepath.Join(filepath.Dir(p.cmd.Path), "explicit_program")
			l := newLedger(0)
			p.start().finish(l.answer).wantNoRaces()
		})
	}
}

func TestPartlyStaticHasNoDataRace(t *testing.T) {
	for _, program := range []string{"threads", "many"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			p := sanitized(t, program)
			p.cmd.Path = filepath.Join(filepath.Dir(p.cmd.Path), partly)
			l := newLedger(0)
			p.start().finish(l.answer).wantNoRaces()
		})
	}
}
