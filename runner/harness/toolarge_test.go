package harness

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers/policies"
)

// Before a run begins it says which jobs are larger than a device, how large they are, and whether that is an estimate.
func TestJobsThatAreTooLargeAreNamed(t *testing.T) {
	known, _ := profiles.Catalog().Estimate([]mixes.Job{mixes.FromCommand(strings.Fields("bfs graph512M.txt"))}, func(mixes.Job, string) (io.ReadCloser, error) { return nil, fs.ErrNotExist })
	m := mixes.Mix{Source: "m.wl"}
	for i, line := range []string{"needle 32768 10", "bfs graph512M.txt", "lavaMD -boxes1d 120", "bfs graph512M.txt", "unknown 5"} {
		m.Jobs, m.Lines = append(m.Jobs, mixes.FromCommand(strings.Fields(line))), append(m.Lines, i+3)
	}
	m.Jobs = known.Declare(m.Jobs, false)
	said := func(m mixes.Mix, gib ...int64) (lines []string) {
		var devices []results.Device
		for _, n := range gib {
			devices = append(devices, results.Device{Name: fmt.Sprintf("G%d", n), CapacityBytes: n << 30, ContextBytes: 1 << 30})
		}
		Batch{Request: Request{Mix: m, Profiles: known, Say: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}}.sayTooLarge(results.Live, devices)
		return lines
	}
	if lines := said(m, 4, 21); len(lines) != 0 {
		t.Errorf("of what fits: %q", lines)
	}
	lines := said(m, 10, 9)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `m.wl:4: "bfs graph512M.txt" needs 19.`) || !strings.Contains(lines[0], "GiB of device memory by an estimate, more than the 9 GiB that a device (G10) has for a job") ||
		!strings.HasPrefix(lines[1], `m.wl:5: "lavaMD -boxes1d 120" needs 12.`) || strings.Contains(lines[1], "estimate") {
		t.Errorf("%q", lines)
	}
	var moved string
	b := Batch{Request: Request{Mix: m, Profiles: known, Say: func(format string, args ...any) { moved = fmt.Sprintf(format, args...) }}}
	b.Scheduler.Revokes = true
	b.sayTooLarge(results.Live, []results.Device{{Name: "G", CapacityBytes: 1 << 30}})
	if !strings.HasSuffix(moved, "only if each of its kernels needs less") {
		t.Errorf("under a scheduler that moves memory: %q", moved)
	}
	many := mixes.Mix{Jobs: make([]mixes.Job, 11)}
	for i := range many.Jobs {
		many.Jobs[i] = mixes.Job{Program: fmt.Sprint("./", i), Footprint: mixes.Footprint{Bytes: 5 << 30}}
	}
	if lines := said(many, 2); len(lines) != 9 || !strings.HasPrefix(lines[0], `"./0" needs 5 GiB`) || !strings.HasSuffix(lines[8], ": 3") {
		t.Errorf("%q", lines)
	}
}

// Managed memory comes by page faults on a simulated node, if its scheduler lets the job begin.
func TestManagedMemoryThatIsTooLarge(t *testing.T) {
	j := mixes.FromCommand(strings.Fields("pilot/bfs --size lg --verify --memory managed"))
	for scheduler, want := range map[string]string{"zero": "page faults", "sa": "page faults", "demand": "page faults", "case-alg3:managed=exceed": "page faults",
		"case-alg3": "cannot run here, unless the scheduler has managed=exceed"} {
		s, err := policies.Parse(scheduler, 1)
		if err != nil {
			t.Fatal(err)
		}
		b := Batch{Request: Request{Profiles: profiles.Catalog()}, Scheduler: s}
		if said := b.ofTooLarge(results.Simulated, j); !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", scheduler, said, want)
		}
		if said := b.ofTooLarge(results.Live, j); strings.Contains(said, "page faults") {
			t.Errorf("%s, live: %q", scheduler, said)
		}
	}
}
