package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
)

// Of a store only the latest runs count, because reading all would take long, and jobs change.
// Traced runs have a row for each kernel.
const (
	maxRuns   = 500
	maxTraced = 10
	// reachedRuns is how many of a command show what its jobs reach. After so many more it is known anew, if its program or its
	// environment has changed.
	reachedRuns = 3
)

// All is what the file says, and what the live and the simulated runs show that a filter selects, of every command.
func All(ctx context.Context, db *store.Store, file File, f store.Filter) ([]results.Known, error) {
	found := file.Entries()
	for _, f.Mode = range []results.Mode{results.Live, results.Simulated} {
		learned, err := Learned(ctx, db, f, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, learned...)
	}
	return found, nil
}

// WithoutRuns are the mixes of which a store has no run. db may be nil: then nothing is said of any.
func WithoutRuns(ctx context.Context, db *store.Store, mixes []string) (without []string, err error) {
	if db == nil {
		return nil, nil
	}
	for _, mix := range mixes {
		runs, err := db.Runs(ctx, store.Filter{Mix: mix, Last: 1})
		if err != nil {
			return nil, err
		}
		if len(runs) == 0 {
			without = append(without, mix)
		}
	}
	return without, nil
}

// Learned returns what the complete and undoubted runs of one mode show that a filter selects: for each command and
// GPU the medians over the jobs that ended ok. commands nil: all. Traced runs give times only where no
// other run does, because tracing costs time. How much of a device kernels fill is known from traced
// runs. Shared memory does not count in it. If db is nil, no runs are known.
func Learned(ctx context.Context, db *store.Store, f store.Filter, commands []string) ([]results.Known, error) {
	if db == nil {
		return nil, nil
	}
	f.Status, f.Undoubted, f.Last = results.Complete, true, maxRuns
	type place struct{ command, gpu string }
	type name struct {
		run int64
		job int
	}
	found := map[place]*sample{}
	held := map[name]float64{}
	remember := func(p store.Past) error {
		at := place{p.Command, p.GPU}
		if found[at] == nil {
			found[at] = &sample{}
		}
		found[at].add(p)
		held[name{p.Run, p.Job}] = p.HeldS
		return nil
	}
	if err := db.EachPast(ctx, f, commands, remember); err != nil {
		return nil, err
	}
	if f.Mode == results.Live {
		f.Traced, f.Last = true, maxTraced
	}
	kernels := map[name]*kernelTime{}
	err := db.EachKernelTime(ctx, f, commands, func(k store.KernelTime) error {
		job := name{k.Run, k.Job}
		if held[job] == 0 {
			return nil
		}
		if kernels[job] == nil {
			kernels[job] = &kernelTime{at: found[place{k.Command, k.GPU}], heldS: held[job]}
		}
		kernels[job].add(k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, k := range kernels {
		k.end()
	}
	var out []results.Known
	for at, s := range found {
		e := s.median()
		e.Command, e.GPU = at.command, at.gpu
		out = append(out, e)
	}
	sortKnown(out)
	return out, nil
}

// Reached returns what jobs of commands used at most that grew, by command, as the node's latest runs of a command show.
func Reached(ctx context.Context, db *store.Store, commands []string, n Node, o Options) (map[string]store.Reached, error) {
	if db == nil || len(commands) == 0 {
		return nil, nil
	}
	f := store.Filter{Mode: n.Mode, Suite: n.Suite, Probe: &o.Probe, GPUs: n.GPUs, Before: o.Before, Status: results.Complete, Undoubted: true, Last: maxRuns}
	found := map[string]store.Reached{}
	return found, db.EachReached(ctx, f, commands, reachedRuns, func(r store.Reached) error {
		found[r.Command] = r
		return nil
	})
}

// sample is what the jobs of one command did on one GPU model.
type sample struct {
	plain, traced []store.Past
	kernels, sms  []float64
}

func (s *sample) add(p store.Past) {
	if p.Traced {
		s.traced = append(s.traced, p)
	} else {
		s.plain = append(s.plain, p)
	}
}

func (s *sample) median() results.Known {
	of := s.plain
	if len(of) == 0 {
		of = s.traced
	}
	runs := map[int64]bool{}
	var before, held, after, bytes []float64
	for _, p := range of {
		runs[p.Run] = true
		before, held, after, bytes = append(before, p.BeforeS), append(held, p.HeldS), append(after, p.AfterS), append(bytes, float64(p.Bytes))
	}
	e := results.Known{Runs: len(runs), Jobs: len(of), Expected: results.Expected{BeforeS: median(before), HeldS: median(held), AfterS: median(after),
		Bytes: int64(median(bytes)), Source: fmt.Sprintf("%d runs", len(runs))}}
	if len(runs) == 1 {
		e.Source = "1 run"
	}
	if len(s.kernels) > 0 {
		e.Kernels = new(median(s.kernels))
	}
	if len(s.sms) > 0 {
		e.SMs = new(median(s.sms))
	}
	return e
}

// kernelTime is the time that one job was in kernels.
type kernelTime struct {
	at                 *sample
	heldS, s           float64
	shapedS, smSeconds float64 // in kernels of which the shape is known, and with the part of the SMs that they fill
}

func (t *kernelTime) add(k store.KernelTime) {
	t.s += k.S
	if d := k.Device; k.Kernel.Grid != "" && d.SMs > 0 {
		sms := profiles.SM{Warps: d.WarpsPerSM, Blocks: d.BlocksPerSM}.Filled(k.Kernel)
		t.shapedS += k.S
		t.smSeconds += min(sms/float64(d.SMs), 1) * k.S
	}
}

func (t *kernelTime) end() {
	t.at.kernels = append(t.at.kernels, min(t.s/t.heldS, 1))
	if t.shapedS > 0 {
		t.at.sms = append(t.at.sms, t.smSeconds/t.shapedS)
	}
}

// median needs one value at least, and sorts the values.
func median(values []float64) float64 {
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return values[middle-1] + (values[middle]-values[middle-1])/2
}
