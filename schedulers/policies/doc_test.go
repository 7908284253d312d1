package policies_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// The example of docs/guide/policies.md is best_fit_test.go, which is compiled. It has other names here, so
// that a reader's copy of the page compiles beside it.
func TestThePageShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("best_fit_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```go\npackage policies\n")
	shown, _, _ := strings.Cut(rest, "```")
	for _, name := range []string{"type bestFit struct", "var bestFitEntry =", `Name: "best-fit"`} {
		if !strings.Contains(shown, name) || strings.Contains(string(source), name) {
			t.Errorf("the page must have %q, and the example must not", name)
		}
	}
	shown = strings.NewReplacer("bestFit", "pageFit", `"best-fit"`, `"page-fit"`).Replace(shown)
	if diff := cmp.Diff(string(source), "package policies\n"+shown); diff != "" {
		t.Errorf("the example (-best_fit_test.go +docs/guide/policies.md):\n%s", diff)
	}
}

// The example keeps the rules that every scheduler keeps, and does what it says.
func TestTheExampleOfThePage(t *testing.T) {
	info := policies.RegisterExample(t)
	for _, queue := range []engine.Order{engine.FIFO, engine.LargestFirst} {
		t.Run(string(queue), func(t *testing.T) {
			chance.Check(t, schedtest.Registered(info).Workload(queue, schedtest.Rules{MemoryHard: true}))
		})
	}
	n := enginetest.NewNode(t, "page-fit", enginetest.Small, enginetest.Small) // 16 bytes each
	n.Submit(schedulers.Task{ID: 1, Bytes: 10}, "1@0")
	n.Submit(schedulers.Task{ID: 2, Bytes: 12}, "2@1")
	n.Submit(schedulers.Task{ID: 3, Bytes: 2}, "3@1") // 4 are free there, and 6 on device 0
	n.Submit(schedulers.Task{ID: 4, Bytes: 7}, "")
	n.Finish(1, "4@0")
}
