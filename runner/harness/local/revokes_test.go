package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/schedulers/policies"
)

// A live run under a scheduler that takes back would wait for answers that nobody gives.
func TestNoLiveRunUnderASchedulerThatTakesBack(t *testing.T) {
	for _, name := range []string{"vgpu", "demand"} {
		s, err := policies.Parse(name, 4)
		if err != nil {
			t.Fatal(err)
		}
		var wrong *harness.RequestError
		if err := new(Backend).CheckScheduler(s); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "--sched "+name+": it takes memory back") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
