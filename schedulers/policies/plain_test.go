package policies_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// The engine decides what the plain engine decides, under every registered scheduler and queue
// order. CASERUN_WORKLOADS sets the number of random workloads.
func TestTheEngineDecidesLikeThePlainOne(t *testing.T) {
	workloads := 1000
	if text, ok := os.LookupEnv("CASERUN_WORKLOADS"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("CASERUN_WORKLOADS=%s: want a number of workloads", text)
		}
		workloads = n
	}
	var arms []arm
	for _, info := range policies.All() {
		for _, queue := range queuesOf(info) {
			arms = append(arms, arm{info, queue})
		}
	}
	for i := range workloads {
		a := arms[i%len(arms)]
		if err := schedtest.Compare(a.info, a.queue, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
}

type arm struct {
	info  policies.Info
	queue engine.Order
}
