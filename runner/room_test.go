package runner_test

import (
	"testing"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/schedulers"
)

// What a process could have is what the others leave. A device that the run does not have is an error.
func TestRoomOfAProcess(t *testing.T) {
	setup{scheduler: "case-alg3", devices: 2, jobs: probed(2)}.run(t, func(f *fake) {
		ask := func(device int) {
			t.Helper()
			err := f.batch.TryPost(f.now, runner.RoomAsked{Process: schedulers.Process{Job: 1, Serial: 9}, Device: device})
			if (err != nil) != (device > 1) {
				t.Errorf("device %d: %v", device, err)
			}
		}
		f.started(0, 1)
		f.calls = nil
		ask(0)
		f.want("room 16")
		f.beginAs(0, 1, 12)
		f.calls = nil
		ask(0)
		ask(1)
		ask(2)
		f.want("room 4", "room 16")
		f.ended(0, 1)
	})
}
