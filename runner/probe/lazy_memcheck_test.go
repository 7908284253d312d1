package probe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
			want := results(native(t, "13", program))
			log := filepath.Join(t.TempDir(), "log")
			p := prepareLazy(t, "13", "lazy_program", program)
			p.cmd.Path, p.cmd.Args = valgrind, append([]string{"valgrind", "--quiet", "--log-file=" + log}, p.cmd.Args...)
			if got := results(p.start().finish(grant).lines); !slices.Equal(got, want) {
				t.Errorf("output\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if said, err := os.ReadFile(log); err != nil || len(said) > 0 {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}
