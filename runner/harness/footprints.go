package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/schedulers/policies"
)

// allowance is what the library asks for above a stated footprint (native/lazy/program/mode.h, rounding).
const allowance = 16 << 20

// reach gives jobs that grew in earlier runs, and whose mix states no memory, what they reached there as their footprint, in live
// runs whose scheduler binds tasks. An event says so of each.
func (b *Batch) reach(ctx context.Context, backend Backend) error {
	s := b.Scheduler
	if b.NoFootprints || backend.Mode() != results.Live || s.Binds != policies.BindsTask || s.ClientsDecide {
		return nil
	}
	found, err := b.reached(ctx, backend)
	if err != nil || len(found) == 0 {
		return err
	}
	jobs, n := slices.Clone(b.Mix.Jobs), 0
	for i := range jobs {
		r, known := found[jobs[i].Whole().Command()]
		if !known || !statesNoMemory(&jobs[i]) {
			continue
		}
		f := jobs[i].Footprint
		f.Bytes = r.Bytes
		jobs[i] = jobs[i].WithFootprint(f)
		if jobs[i].Portion > 1 {
			continue // that is said of its job
		}
		n++
		b.Notes = append(b.Notes, results.Event{Kind: results.EventReached, Job: &i,
			Detail: fmt.Sprintf("its mix states no memory, so it asks first for %s, which it reached in earlier runs (%d)", size.Text(r.Bytes), r.Runs)})
	}
	b.Mix.Jobs = jobs
	if n > 0 {
		b.Say("%d of %d jobs state no memory, and ask first for what they reached in earlier runs; --no-footprints leaves that out", n, len(b.requested().Jobs))
	}
	return nil
}

// reached is what the batch's jobs that state no memory reached in earlier runs, by command. What may not fit the largest device is left
// out, because a job that would do with less now must not be refused.
func (b *Batch) reached(ctx context.Context, backend Backend) (map[string]store.Reached, error) {
	var commands []string
	for i := range b.Mix.Jobs {
		if j := &b.Mix.Jobs[i]; statesNoMemory(j) {
			commands = append(commands, j.Whole().Command())
		}
	}
	slices.Sort(commands)
	o, err := b.historyOptions(ctx, backend)
	if err != nil {
		return nil, err
	}
	node, err := backend.History(b.Profiles)
	if err != nil {
		return nil, err
	}
	found, err := history.Reached(ctx, b.Store, slices.Compact(commands), node, o)
	room := b.roomOf(node.FreeBytes)
	maps.DeleteFunc(found, func(_ string, r store.Reached) bool { return r.Bytes+r.HeapBytes+allowance > room })
	return found, err
}

// roomOf is what a job may have of a device with so much free memory.
func (b *Batch) roomOf(free int64) int64 {
	if b.MemCap.Bytes > 0 {
		free = b.MemCap.Bytes
	}
	if b.MPS() {
		free -= runner.ServerBytes
	}
	return free - b.Context.Bytes
}

// statesNoMemory reports whether the mix leaves open what the job's tasks need.
func statesNoMemory(j *mixes.Job) bool {
	return j.Footprint.Bytes == 0 && j.Binding == mixes.BindProbe && !j.Pin && j.Ranks <= 1
}
