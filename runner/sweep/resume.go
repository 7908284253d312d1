package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/schedulers/policies"
)

// Recorded is what a sweep was planned from, and the options of its runs. It needs neither the
// node nor the mixes' files.
func Recorded(w results.Sweep) (results.Spec, harness.Options, error) {
	spec, err := results.ReadSpec(w)
	if err != nil {
		return spec, harness.Options{}, err
	}
	options, err := harness.ParseOptions(spec.Settings)
	if err != nil {
		err = fmt.Errorf("read the settings of sweep %d: %w", w.ID, err)
	}
	return spec, options, err
}

// Resume plans a sweep again as it was planned. If another build of this program planned the
// sweep, the note names both builds.
func Resume(ctx context.Context, w results.Sweep) (p *Plan, note string, err error) {
	recorded, options, err := Recorded(w)
	if err != nil {
		return nil, "", err
	}
	silent := func(string, ...any) {}
	backend, err := nodes.Open(ctx, options, silent)
	if err != nil {
		return nil, "", fmt.Errorf("resume sweep %d: %w", w.ID, err)
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	p = &Plan{Spec: recorded, Mode: w.Mode}
	if err := p.settle(ctx, backend, options, recorded.Args(), silent); err != nil {
		return nil, "", fmt.Errorf("resume sweep %d: %w", w.ID, err)
	}
	for i, mix := range recorded.Mixes {
		if now := p.Spec.Mixes[i]; now.Name != mix.Name || now.SHA256 != mix.SHA256 {
			return nil, "", refuse("resume sweep %d: mix %s, or a profile of its jobs, is not what it was when the sweep was planned: bring it back, or start a new sweep",
				w.ID, mix.Arg)
		}
	}
	program, err := thisProgram()
	if err != nil {
		return nil, "", err
	}
	if program != recorded.Program {
		note = fmt.Sprintf("by caserun %s (revision %s, sha256 %.12s), planned by %s (revision %s, sha256 %.12s)",
			program.Version, program.Revision, program.SHA256,
			recorded.Program.Version, recorded.Program.Revision, recorded.Program.SHA256)
	}
	return p, note, nil
}

// Agree refuses to resume a sweep with other options than it was planned with. given are the
// options, by key, that the user gave. An option that was not given is as planned.
func Agree(id int64, spec results.Spec, planned harness.Options, o Options, runs harness.Options, given []string) error {
	differ := func(key string, asked, planned any) error {
		return refuse("sweep %d was planned with %s, not %s: leave --%s out to resume it, or start a new sweep",
			id, asFlag(key, planned), asFlag(key, asked), key)
	}
	switch args := spec.Args(); {
	case len(o.Mixes) > 0 && !slices.Equal(o.Mixes, args):
		return differ("mixes", o.Mixes, args)
	case len(o.Scheds) > 0 && !slices.EqualFunc(spec.Scheds, o.Scheds, policies.IsPinned):
		return differ("scheds", o.Scheds, spec.Scheds)
	case len(o.Probes) > 0 && !slices.Equal(o.Probes, spec.Probes):
		return differ("probes", o.Probes, spec.Probes)
	case o.Reps > 0 && o.Reps != spec.Reps:
		return differ("reps", o.Reps, spec.Reps)
	case o.Warmups >= 0 && o.Warmups != spec.Warmups:
		return differ("warmups", o.Warmups, spec.Warmups)
	case o.Name != "" && o.Name != spec.Name:
		return differ("name", o.Name, spec.Name)
	}
	asked, err := runs.ByKey()
	if err != nil {
		return err
	}
	were, err := planned.ByKey()
	if err != nil {
		return err
	}
	for _, key := range given {
		if _, shared := were[key]; shared && !reflect.DeepEqual(asked[key], were[key]) {
			return differ(key, asked[key], were[key])
		}
	}
	return nil
}

// asFlag is an option as the user would write it.
func asFlag(key string, value any) string {
	switch v := value.(type) {
	case []string:
		value = strings.Join(v, ",")
	case []results.Probe:
		var names []string
		for _, p := range v {
			names = append(names, p.String())
		}
		value = strings.Join(names, ",")
	case bool:
		return fmt.Sprintf("--%s=%t", key, v)
	}
	if value == "" {
		return "no --" + key
	}
	return fmt.Sprintf("--%s %v", key, value)
}

// Extend plans more repetitions than the sweep has, and returns the runs that this adds. They
// follow the others in an order that is the same as if the sweep had been planned with all.
func (p *Plan) Extend(reps int, say harness.Say) ([]results.Cell, error) {
	had := len(p.Cells())
	if err := p.fewEnough(reps); err != nil {
		return nil, err
	}
	if p.still() {
		say("SIMULATED without noise, the %d repetitions of an arm are equal: a sweep with --sim-noise %v has others", reps, DefaultNoise)
	}
	p.Spec.Reps = reps
	return p.Cells()[had:], nil
}

// StoreExtended stores the runs that Extend added.
func (p *Plan) StoreExtended(ctx context.Context, db *store.Store, id int64, more []results.Cell) error {
	text, err := json.Marshal(p.Spec)
	if err != nil {
		return fmt.Errorf("record the sweep: %w", err)
	}
	err = db.ExtendSweep(context.WithoutCancel(ctx), results.Sweep{ID: id, Spec: string(text), Repetitions: p.Spec.Reps}, more)
	return Busy(err)
}

// SameSize refuses a node with another number of devices than the sweep's runs had, because an
// arm's repetitions would not repeat the same thing.
func (p *Plan) SameSize(ctx context.Context, db *store.Store, id int64) error {
	run, err := db.Latest(ctx, store.Filter{Sweep: id, Status: results.Complete, Warmups: true})
	if errors.Is(err, store.ErrNoRun) {
		return nil
	}
	if err != nil {
		return err
	}
	had, err := db.Devices(ctx, run.ID)
	if err == nil && len(had) != p.devices {
		return refuse("resume sweep %d: its runs so far had %d GPUs, and here are %d: resume it where there are as many, or start a new sweep", id, len(had), p.devices)
	}
	return err
}

// Remaining are the cells of a part of a sweep without a complete run, in the order of execution, and
// the number of the part's cells with one.
func Remaining(ctx context.Context, db *store.Store, id int64, part Part) (left []results.Cell, done int, err error) {
	cells, err := db.Cells(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if !part.Whole() {
		w, err := db.Sweep(ctx, id)
		if err != nil {
			return nil, 0, err
		}
		spec, err := results.ReadSpec(w)
		if err != nil {
			return nil, 0, err
		}
		cells = part.Of(spec, cells)
	}
	runs, err := db.Runs(ctx, store.Filter{Sweep: id, Status: results.Complete, Warmups: true})
	if err != nil {
		return nil, 0, err
	}
	complete := map[int64]bool{}
	for _, r := range runs {
		complete[r.ID] = true
	}
	for _, c := range cells {
		if c.Run == nil || !complete[*c.Run] {
			left = append(left, c)
		}
	}
	return left, len(cells) - len(left), nil
}
