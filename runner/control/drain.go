package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/selection"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
)

// between is the time between two looks at a device that is drained.
const between = 100 * time.Millisecond

// Request is what a user asks of a device of a run.
type Request struct {
	Run    string // its number, or latest: the last run that is under way
	Device string // its number in the run, or its UUID
	Undo   bool   // put it back
	NoWait bool   // do not wait until it is empty
	Say    func(format string, args ...any)
}

// Do drains the device, or puts it back, and waits until it is empty. It returns how it stands with the device then.
func (r *Request) Do(ctx context.Context, db *store.Store) ([]*report.Table, error) {
	run, device, err := r.find(ctx, db)
	if err != nil {
		return nil, err
	}
	c, err := dial(ctx, run.ID, *run.Provenance.PID)
	if err != nil {
		return nil, err
	}
	defer c.conn.Close() //nolint:errcheck // nothing is written any more
	do := Drain
	if r.Undo {
		do = Undo
	}
	state, err := c.ask(ctx, do, device)
	if err == nil && !r.Undo && !r.NoWait {
		state, err = r.wait(ctx, c, run.ID, device, state)
	}
	switch {
	case errors.Is(err, errOver):
		r.Say("run %d has ended, and nothing of it is on device %d", run.ID, device)
		state = runner.DeviceState{Closed: !r.Undo, Empty: true}
	case errors.Is(err, errGone):
		return nil, fmt.Errorf("run %d: %w without a word: caserun report %[1]d shows what is kept of it", run.ID, err)
	case err != nil:
		return nil, fmt.Errorf("run %d: %w", run.ID, err)
	}
	return tables(run, device, state), nil
}

// find finds a run that this user makes on this host now, and a device of it.
func (r *Request) find(ctx context.Context, db *store.Store) (run results.Run, device int, err error) {
	var only store.Filter
	if r.Run == selection.Latest {
		only.Status, only.Warmups = results.Running, true
	}
	run, err = selection.Run(ctx, db, r.Run, only)
	if errors.Is(err, store.ErrNoRun) && r.Run == selection.Latest {
		err = selection.Refuse("latest: no run of %s is under way", db.Path())
	}
	if err != nil {
		return run, 0, err
	}
	if err := reachable(run); err != nil {
		return run, 0, err
	}
	devices, err := db.Devices(ctx, run.ID)
	if err != nil {
		return run, 0, err
	}
	at := slices.IndexFunc(devices, func(d results.Device) bool {
		return strconv.Itoa(d.Index) == r.Device || strings.EqualFold(d.UUID, r.Device)
	})
	if at < 0 {
		return run, 0, selection.Refuse("device %s: run %d has devices 0 to %d; caserun report %[2]d -v --csv DIR writes their UUIDs", r.Device, run.ID, len(devices)-1)
	}
	return run, devices[at].Index, nil
}

// reachable refuses a run that cannot be spoken to.
func reachable(run results.Run) error {
	p := run.Provenance
	switch status := store.RunStanding(run); {
	case status != results.Running:
		return selection.Refuse("run %d is %s: only a run that is under way has devices to drain", run.ID, status)
	case run.Mode != results.Live:
		return selection.Refuse("run %d is simulated: its devices exist in virtual time only, where nobody can drain them", run.ID)
	}
	if here, _ := os.Hostname(); p.Host != here {
		return selection.Refuse("run %d is made on host %s: run caserun drain there", run.ID, p.Host)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d", *p.PID))
	if err != nil {
		return selection.Refuse("run %d: its process %d has ended", run.ID, *p.PID)
	}
	if of := info.Sys().(*syscall.Stat_t).Uid; of != uint32(os.Geteuid()) {
		name := fmt.Sprintf("uid %d", of)
		if u, err := user.LookupId(strconv.Itoa(int(of))); err == nil {
			name = u.Username
		}
		return selection.Refuse("run %d is made by %s: only that user can drain its devices", run.ID, name)
	}
	return nil
}

// wait waits until the device is empty, and says what is left there each time that this has changed.
func (r *Request) wait(ctx context.Context, c *client, run int64, device int, s runner.DeviceState) (runner.DeviceState, error) {
	said := ""
	for !s.Empty {
		if text := leftOn(s); text != said {
			said = text
			r.Say("device %d: %s", device, text)
		}
		select {
		case <-ctx.Done():
			return s, fmt.Errorf("%w; device %d stays out of run %d: caserun drain --undo %[3]d %[2]d puts it back", context.Cause(ctx), device, run)
		case <-time.After(between):
		}
		var err error
		if s, err = c.ask(ctx, Look, device); err != nil {
			return s, err
		}
		if !s.Closed {
			return s, selection.Refuse("device %d was put back meanwhile", device)
		}
	}
	return s, nil
}

// shown is how many jobs a line names.
const shown = 4

// leftOn says in a line what keeps a device from being empty. Sizes are not in it, because they change all the time.
func leftOn(s runner.DeviceState) string {
	var jobs []string
	for _, l := range s.Left {
		if l.Tasks == 0 && l.Why == "" {
			continue
		}
		text := fmt.Sprintf("job %d (%s) with %s", l.Job, l.Name, size.Count(l.Tasks, "task"))
		if l.Why != "" {
			text += ", which stays: " + l.Why
		}
		jobs = append(jobs, text)
	}
	if more := len(jobs) - shown; more > 0 {
		jobs = append(jobs[:shown], fmt.Sprintf("and %s more", size.Count(more, "job")))
	}
	return "waiting for " + strings.Join(jobs, "; ")
}

// tables show a device, and what jobs have there.
func tables(run results.Run, device int, s runner.DeviceState) []*report.Table {
	standing := "open"
	switch {
	case s.Closed && s.Empty:
		standing = "empty"
	case s.Closed:
		standing = "draining"
	}
	sum := runner.Left{}
	left := &report.Table{Name: "left", Title: fmt.Sprintf("what is on device %d of run %d", device, run.ID), Columns: []report.Column{
		{Name: "job_index", Heading: "job"}, {Name: "name"}, {Name: "tasks"}, {Name: "memory", Unit: report.Bytes}, {Name: "contexts"}, {Name: "why", Heading: "why it stays"}}}
	for _, l := range s.Left {
		sum.Tasks, sum.Bytes, sum.Contexts = sum.Tasks+l.Tasks, sum.Bytes+l.Bytes, sum.Contexts+l.Contexts
		left.Add(l.Job, l.Name, l.Tasks, l.Bytes, l.Contexts, l.Why)
	}
	t := &report.Table{Name: "drain", Title: fmt.Sprintf("device %d of run %d", device, run.ID), Columns: []report.Column{
		{Name: "run_id", Place: report.DataOnly}, {Name: "device_index", Heading: "device"}, {Name: "state"}, {Name: "jobs"}, {Name: "tasks"},
		{Name: "memory", Unit: report.Bytes}, {Name: "contexts"}}}
	t.Add(run.ID, device, standing, len(s.Left), sum.Tasks, sum.Bytes, sum.Contexts)
	if len(s.Left) == 0 {
		return []*report.Table{t}
	}
	if s.Empty && s.Closed {
		left.Say("contexts stay until their processes end")
	}
	return []*report.Table{t, left}
}

// Offer offers what completes the words so far: runs that are under way, and then devices of the run.
func Offer(words []string) func(ctx context.Context, db *store.Store, typed string) ([]string, error) {
	return func(ctx context.Context, db *store.Store, _ string) ([]string, error) {
		if len(words) == 0 {
			return offerRuns(ctx, db)
		}
		only := store.Filter{Status: results.Running, Warmups: true}
		run, err := selection.Run(ctx, db, words[0], only)
		if err != nil {
			return nil, err
		}
		devices, err := db.Devices(ctx, run.ID)
		var out []string
		for _, d := range devices {
			out = append(out, fmt.Sprintf("%d\t%s %s", d.Index, d.Name, d.UUID))
		}
		return out, err
	}
}

func offerRuns(ctx context.Context, db *store.Store) ([]string, error) {
	runs, err := db.Runs(ctx, store.Filter{Mode: results.Live, Status: results.Running, Warmups: true, Unchecked: true})
	var out []string
	for _, r := range slices.Backward(runs) {
		if store.RunStanding(r) == results.Running {
			out = append(out, fmt.Sprintf("%d\t%s", r.ID, results.ArmOf(r)))
		}
	}
	return out, err
}
