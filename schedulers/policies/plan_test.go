package policies_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers/policies"
)

func TestPlanRefusesMoreChangesThanItCanTry(t *testing.T) {
	for text, want := range map[string]string{
		"plan:search=1000000":             "",
		"plan:search=1000001":             "scheduler plan: search=1000001: want at most 1000000 changes",
		"plan:window=256":                 "",
		"plan:window=257":                 "scheduler plan: window=257: want at most 256 jobs",
		"plan:search=9223372036854775807": "scheduler plan: search=9223372036854775807: want at most 1000000 changes",
	} {
		_, err := policies.Parse(text, 4)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
