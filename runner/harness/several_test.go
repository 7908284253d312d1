package harness

import (
	"errors"
	"fmt"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/schedulers/policies"
)

// A job that asks for more devices than the node has is refused at its line, and one for several where clients share one device.
func TestJobsOfMoreDevicesThanThereAre(t *testing.T) {
	m := mixes.Mix{Source: "m.yaml", Jobs: []mixes.Job{{Name: "one"}, {Name: "two", GPUs: 2}, {Name: "four", GPUs: 4}}, Lines: []int{3, 5, 7}}
	for _, c := range []struct {
		sched   string
		devices int
		want    string
	}{
		{"sa", 4, ""},
		{"schedgpu", 4, ""}, // which refuses the jobs
		{"case-alg3", 3, "m.yaml:7: job four has gpus: 4, and the node has 3: write a smaller number, or choose a larger node"},
		{"sa", 1, "m.yaml:5: job two has gpus: 2, and the node has 1: write a smaller number, or choose a larger node"},
		{"schedgpu:arch=shared,queue=mmu", 4, "m.yaml:5: job two has gpus: 2, and under schedgpu:arch=shared clients share one device: use arch=server, or another scheduler"},
	} {
		s, err := policies.Parse(c.sched, c.devices)
		if err != nil {
			t.Fatal(err)
		}
		err = CheckDevices(m, s, c.devices)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && (got != c.want || !errors.As(err, new(*RequestError))) {
			t.Errorf("%s on %d devices: %v, want %q", c.sched, c.devices, err, c.want)
		}
	}
}

// Before a run begins it says whose shares the scheduler ignores.
func TestIgnoredSharesAreSaid(t *testing.T) {
	m := mixes.Mix{Jobs: []mixes.Job{{Name: "all"}, {Name: "part", Share: 0.3}, {Name: "other", Share: 1}}}
	for sched, want := range map[string]string{
		"case-alg3": "", "schedgpu": "",
		"sa":                             "job 1 (part): share: 0.3 has no effect: scheduler sa knows no shares; the same for 1 more jobs",
		"schedgpu:arch=shared,queue=mmu": "job 1 (part): share: 0.3 has no effect: scheduler schedgpu knows no shares; the same for 1 more jobs",
	} {
		s, err := policies.Parse(sched, 2)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		Batch{Request: Request{Mix: m, Say: func(format string, args ...any) { said += fmt.Sprintf(format, args...) }}, Scheduler: s}.sayIgnoredShares()
		if said != want {
			t.Errorf("%s: %q, want %q", sched, said, want)
		}
	}
}
