//go:build python

package sim

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/runner/external"
	"github.com/caserun/caserun/schedulers/policies"
)

// The example decides as case-alg3 does, under each queue order: every record of W1 to W8 is equal.
func TestTheExampleIsAlg3(t *testing.T) {
	if err := exec.Command("python3", "-c", "").Run(); err != nil {
		t.Fatalf("benchmarks/policies/alg3.py needs python3 (apt-get install python3): %v", err)
	}
	path, err := filepath.Abs("../../benchmarks/policies/alg3.py")
	if err != nil {
		t.Fatal(err)
	}
	tasks := 0
	for _, parameters := range []string{"queue=largest-first", "queue=fifo,age-limit=3", "queue=mmu,wait-limit=20s"} {
		for _, mix := range []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"} {
			ours, err := policies.Parse("case-alg3:"+parameters, 4)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := policies.Parse("exec:path="+path+","+parameters, 4)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Program.Timeout = time.Minute
			p, err := external.Start(*theirs.Program)
			if err != nil {
				t.Fatal(err)
			}
			theirs.Policy = p
			r := trial{node: mustNode(t, "sim:4xV100"), jobs: mixJobs(t, mix)}
			_, want, _, err := r.under(t.Context(), ours)
			if err != nil {
				t.Fatal(err)
			}
			_, got, _, err := r.under(t.Context(), theirs)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s under %s (-case-alg3 +alg3.py):\n%s", mix, parameters, diff)
			}
			tasks += len(want.Tasks)
		}
	}
	if tasks == 0 {
		t.Error("no task was placed")
	}
}
