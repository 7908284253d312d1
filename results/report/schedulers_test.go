package report

import (
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers/policies"
)

// A scheduler that takes the order by length uses what jobs did before under that order alone.
func TestWhichSchedulersUseWhatJobsDid(t *testing.T) {
	for name, want := range map[string]string{"plan": "yes", "case-alg3": "under queue=sjf", "sa": "under queue=sjf", "zero": "no"} {
		info, err := policies.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if text := render(t, SchedulerTables(info)[0], CSV, Options{}); !strings.Contains(text, "\nuses what jobs did before,"+want+"\n") {
			t.Errorf("%s: want %q in\n%s", name, want, text)
		}
	}
}
