package harness

import (
	"errors"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers/policies"
)

// A run under a scheduler that takes back would wait for answers that nobody gives.
func TestNoRunUnderASchedulerThatTakesBack(t *testing.T) {
	for _, info := range policies.All() {
		_, _, err := Request{Sched: info.Name}.Scheduler(4, 8)
		if refused := err != nil; refused != info.Revokes {
			t.Errorf("%s: error %v", info.Name, err)
		}
		var wrong *RequestError
		if err != nil && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), "--sched "+info.Name+": it takes memory back")) {
			t.Errorf("%s: error %v", info.Name, err)
		}
	}
}
