package policies_test

import (
	"testing"

	"github.com/caserun/caserun/schedulers/policies"
)

func TestPlanRefusesValuesThatItCannotTry(t *testing.T) {
	for text, want := range map[string]string{
		"plan:search=1000000":             "",
		"plan:search=1000001":             "scheduler plan: search=1000001: want at most 1000000 changes",
		"plan:weight=0":                   "",
		"plan:weight=1":                   "",
		"plan:weight=1.01":                "scheduler plan: weight=1.01: want a plain decimal number from 0 to 1",
		"plan:error=0.99":                 "",
		"plan:error=1":                    "scheduler plan: error=1: want a plain decimal number from 0 to 0.99",
		"plan:error=-0.1":                 "scheduler plan: error=-0.1: want a plain decimal number from 0 to 0.99",
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
