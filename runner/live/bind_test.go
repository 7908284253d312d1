package live

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/policies"
)

// staticProgram looks as if nvcc had linked the runtime into it.
func staticProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "static")
	c := exec.Command("cc", "-o", path, "-xc", "-")
	c.Stdin = strings.NewReader(`__attribute__((section(".nv_fatbin"), used)) static const char fat[4] = "dev"; int main(void) { return 0; }`)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	return path
}

func TestBindSaysHowJobsGetTheirDevices(t *testing.T) {
	program := staticProgram(t)
	job := mixes.Job{Name: "x", Program: program, Footprint: mixes.Footprint{Bytes: 1 << 30}}
	pinned := job
	pinned.Pin = true
	bind := func(sched string, jobs ...mixes.Job) (n *node, kinds []string, warnings []string, err error) {
		s, err := policies.Parse(sched, 2)
		if err != nil {
			t.Fatal(err)
		}
		n = &node{gpus: &nvml.Node{}, programs: slices.Repeat([]string{program}, len(jobs)), Batch: harness.Batch{Scheduler: s, Request: harness.Request{
			Configuration: harness.Configuration{Options: harness.Options{Suite: suites.Builtin}}, Mix: mixes.Mix{Jobs: jobs},
			Say: func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }}}}
		err = n.bind()
		for _, e := range n.notes {
			kinds = append(kinds, fmt.Sprintf("%s %d", e.Kind, *e.Job))
		}
		return n, kinds, warnings, err
	}
	n, kinds, warnings, err := bind("case-alg3", job, pinned, job, job, job, job)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"declared 0", "declared 1", "declared 2", "declared 3", "declared 4", "declared 5", "pin_ignored 1"}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if n.Mix.Jobs[0].Binding != mixes.BindDeclared {
		t.Error("the run's jobs are not bound by their footprint")
	}
	if len(warnings) != 2 || !strings.HasPrefix(warnings[0], "job 0 (x), 1 (x), 2 (x), 3 (x) and 2 more: the CUDA runtime is linked statically") ||
		!strings.HasPrefix(warnings[1], "job 1 (x): pin: true has no effect") {
		t.Errorf("warnings %q: want one line for each thing", warnings)
	}
	n, kinds, _, err = bind("sa", job, pinned)
	if err != nil || !slices.Equal(kinds, []string{"pin_ignored 1"}) || n.Mix.Jobs[0].Binding != mixes.BindProbe {
		t.Errorf("under sa: events %v, binding %v, %v", kinds, n.Mix.Jobs[0].Binding, err)
	}
	job.Footprint = mixes.Footprint{}
	if _, _, _, err = bind("zero", job); !errors.As(err, new(*harness.RequestError)) || !strings.Contains(err.Error(), "-cudart shared") {
		t.Errorf("without a footprint: %v", err)
	}
}
