package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The library is loaded into programs of everyone's, so it must not touch memory
// that is not its own: valgrind's memcheck says so of every program.
// CASERUN_REQUIRE_VALGRIND says that there must be one.
func TestLazyUnderMemcheck(t *testing.T) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		if os.Getenv("CASERUN_REQUIRE_VALGRIND") != "" {
			t.Fatal(err)
		}
		t.Skipf("no valgrind: %v", err)
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			p := prepareLazy(t, "13", "lazy_program", program)
			p.cmd.Path, p.cmd.Args = valgrind, append([]string{"valgrind", "--quiet", "--log-file=" + log}, p.cmd.Args...)
			p.start().finish(grant).wantNative()
			if said, err := os.ReadFile(log); err != nil || len(said) > 0 {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}
