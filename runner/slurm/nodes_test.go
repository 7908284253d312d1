package slurm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStates(t *testing.T) {
	got, err := parseStates("n1|mixed|\nn2|down*|\nn2|down*|\nn3|draining@|\n")
	if diff := cmp.Diff(map[string]string{"n1": "mixed", "n2": "down", "n3": "draining"}, got); diff != "" || err != nil {
		t.Errorf("%v, states (-want +got):\n%s", err, diff)
	}
	for _, out := range []string{"n1\n", "n1|idle\n", "|idle|\n", "n1||\n", "n1|idle|x|\n", "sinfo: hello\n"} {
		if got, err := parseStates(out); err == nil {
			t.Errorf("%q: %v, want an error", out, got)
		}
	}
	for state, want := range map[string]bool{"down": true, "drained": true, "idle": false, "mixed": false, "": false} {
		if Gone(state) != want {
			t.Errorf("%q is gone: %v", state, Gone(state))
		}
	}
}
