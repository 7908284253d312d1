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
	"github.com/caserun/caserun/schedulers/cluster"
)

// Resumption is a recorded sweep that a user wants resumed.
type Resumption struct {
	Sweep   results.Sweep
	Spec    results.Spec    // as planned
	Options harness.Options // of its runs, as planned
	Plan    *Plan           // once it is loaded

	reps int            // that the user wants if they are more than planned, else 0
	more []results.Cell // the runs that these add
	note string         // of another build that planned it
}

// Recall reads how a sweep was planned, which needs neither the node nor the mixes' files, and refuses other options than
// it was planned with. given are the options, by key, that the user gave. If extend, more repetitions extend the sweep.
func Recall(w results.Sweep, asked Options, runs harness.Options, given []string, extend bool) (r *Resumption, err error) {
	r = &Resumption{Sweep: w}
	if r.Spec, r.Options, err = recorded(w); err != nil {
		return nil, err
	}
	if extend && asked.Reps > r.Spec.Reps {
		r.reps, asked.Reps = asked.Reps, r.Spec.Reps
	}
	return r, agree(w.ID, r.Spec, r.Options, asked, runs, given)
}

// Asked are the options that plan the same sweep.
func (r *Resumption) Asked() Options {
	return Options{Name: r.Spec.Name, Mixes: r.Spec.Args(), Scheds: r.Spec.Scheds, Probes: r.Spec.Probes, Reps: r.Spec.Reps, Warmups: r.Spec.Warmups}
}

// Extends reports whether the user wants more repetitions than were planned.
func (r *Resumption) Extends() bool { return r.reps > 0 }

// Done reports whether nothing is left to do: the sweep is complete, and no run of it is excluded.
func (r *Resumption) Done(ctx context.Context, db *store.Store) (bool, error) {
	if r.Sweep.Status != results.Complete || r.Extends() {
		return false, nil
	}
	excluded, err := r.excluded(ctx, db)
	return excluded == 0, err
}

// excluded is how many cells have a run that a user has excluded.
func (r *Resumption) excluded(ctx context.Context, db *store.Store) (n int, err error) {
	left, _, err := Remaining(ctx, db, r.Sweep.ID, Part{})
	if err != nil || len(left) == 0 {
		return 0, err
	}
	runs, err := db.Runs(ctx, store.Filter{Sweep: r.Sweep.ID, Status: results.Complete, Warmups: true, Excluded: true})
	excluded := map[int64]bool{}
	for _, run := range runs {
		excluded[run.ID] = run.Excluded
	}
	for _, c := range left {
		if c.Run != nil && excluded[*c.Run] {
			n++
		}
	}
	return n, err
}

// CheckFree refuses a sweep on which a process works.
func (r *Resumption) CheckFree() error {
	if r.Sweep.Status != results.Running {
		return nil
	}
	return Busy(store.HeldError{Sweep: r.Sweep.ID, Host: r.Sweep.Host, PID: *r.Sweep.PID})
}

// Load plans the sweep again on this node, with the repetitions that the user wants. The part must be one of it.
func (r *Resumption) Load(ctx context.Context, db *store.Store, part Part, say harness.Say) (err error) {
	if r.Plan, r.note, err = Resume(ctx, r.Sweep); err != nil {
		return err
	}
	if err := r.Plan.SameSize(ctx, db, r.Sweep.ID); err != nil {
		return err
	}
	if r.Extends() {
		if r.more, err = r.Plan.extend(r.reps, say); err != nil {
			return err
		}
	}
	return part.Fit(r.Plan.Cells())
}

// Store stores the repetitions that the user wants, and takes the sweep from a process that works on it. If redo, doubtful
// runs are to be made again.
func (r *Resumption) Store(ctx context.Context, db *store.Store, redo bool, say harness.Say) error {
	if r.Sweep.Status == results.Running {
		if err := harness.CloseSweep(db, r.Sweep); err != nil {
			return err
		}
	}
	if r.Extends() {
		if err := r.StoreExtension(ctx, db); err != nil {
			return err
		}
		say("sweep %d: %d repetitions of each arm instead of %d", r.Sweep.ID, r.reps, r.Spec.Reps)
	}
	if !redo {
		return nil
	}
	n, err := db.RedoDoubtful(context.WithoutCancel(ctx), r.Sweep.ID)
	if err != nil {
		return Busy(err)
	}
	say("sweep %d: doubtful runs, which are made again: %d", r.Sweep.ID, n)
	return nil
}

// StoreExtension stores the runs that more repetitions add.
func (r *Resumption) StoreExtension(ctx context.Context, db *store.Store) error {
	text, err := json.Marshal(r.Plan.Spec)
	if err != nil {
		return fmt.Errorf("record the sweep: %w", err)
	}
	err = db.ExtendSweep(context.WithoutCancel(ctx), results.Sweep{ID: r.Sweep.ID, Spec: string(text), Repetitions: r.Plan.Spec.Reps}, r.more)
	return Busy(err)
}

// Left are the runs of a part that are not done, with those that more repetitions add.
func (r *Resumption) Left(ctx context.Context, db *store.Store, part Part) ([]results.Cell, error) {
	left, _, err := Remaining(ctx, db, r.Sweep.ID, part)
	undone := map[int]bool{}
	for _, c := range append(left, r.more...) {
		undone[c.Position] = true
	}
	return slices.DeleteFunc(part.Of(r.Plan.Spec, r.Plan.Cells()), func(c results.Cell) bool { return !undone[c.Position] }), err
}

// Announce says what is left of a part, and what is different from where it was begun. It returns the note for the sweep.
func (r *Resumption) Announce(ctx context.Context, db *store.Store, part Part, say harness.Say) (note string, err error) {
	id := r.Sweep.ID
	left, done, err := Remaining(ctx, db, id, part)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("sweep %d", id)
	if !part.Whole() {
		what = fmt.Sprintf("part %s of %s", part, what)
	}
	say("%s: %d of %d runs are left", what, len(left), len(left)+done)
	excluded, err := r.excluded(ctx, db)
	if err != nil {
		return "", err
	}
	if excluded > 0 {
		say("sweep %d: excluded runs, which are made again: %d", id, excluded)
	}
	if missing := store.LeftOut(r.Sweep.Note); missing != "" {
		say("sweep %d: %s, so they are repeated here: to avoid that, resume the sweep where they are", id, missing)
	}
	if r.note == "" {
		return "", nil
	}
	say("sweep %d is resumed %s: runs of the two builds may differ", id, r.note)
	return fmt.Sprintf("resumed at run %d of %d %s", done+1, len(left)+done, r.note), nil
}

// recorded is what a sweep was planned from, and the options of its runs.
func recorded(w results.Sweep) (results.Spec, harness.Options, error) {
	spec, err := results.ReadSpec(w)
	if err != nil {
		return spec, harness.Options{}, err
	}
	options, err := harness.ParseOptions(spec.Settings)
	options.Tag = w.Tag // it may have changed since
	if err != nil {
		err = fmt.Errorf("read the settings of sweep %d: %w", w.ID, err)
	}
	return spec, options, err
}

// Resume plans a sweep again as it was planned. If another build of this program planned the
// sweep, the note names both builds.
func Resume(ctx context.Context, w results.Sweep) (p *Plan, note string, err error) {
	spec, options, err := recorded(w)
	if err != nil {
		return nil, "", err
	}
	silent := func(string, ...any) {}
	backend, err := nodes.Open(ctx, options, silent)
	if err != nil {
		return nil, "", fmt.Errorf("resume sweep %d: %w", w.ID, err)
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	p = &Plan{Spec: spec, Mode: w.Mode}
	if err := p.settle(ctx, backend, options, spec.Args(), silent); err != nil {
		return nil, "", fmt.Errorf("resume sweep %d: %w", w.ID, err)
	}
	for i, mix := range spec.Mixes {
		if now := p.Spec.Mixes[i]; now.Name != mix.Name || now.SHA256 != mix.SHA256 {
			return nil, "", refuse("resume sweep %d: mix %s, or a profile of its jobs, is not what it was when the sweep was planned: bring it back, or start a new sweep",
				w.ID, mix.Arg)
		}
	}
	program, err := thisProgram()
	if err != nil {
		return nil, "", err
	}
	if program != spec.Program {
		note = fmt.Sprintf("by caserun %s (revision %s, sha256 %.12s), planned by %s (revision %s, sha256 %.12s)",
			program.Version, program.Revision, program.SHA256,
			spec.Program.Version, spec.Program.Revision, spec.Program.SHA256)
	}
	return p, note, nil
}

// agree refuses other options than a sweep was planned with. An option that was not given is as planned.
func agree(id int64, spec results.Spec, planned harness.Options, o Options, runs harness.Options, given []string) error {
	differ := func(key string, asked, planned any) error {
		return refuse("sweep %d was planned with %s, not %s: leave --%s out to resume it, or start a new sweep",
			id, asFlag(key, planned), asFlag(key, asked), key)
	}
	switch args := spec.Args(); {
	case len(o.Mixes) > 0 && !slices.Equal(o.Mixes, args):
		return differ("mixes", o.Mixes, args)
	case len(o.Scheds) > 0 && !slices.EqualFunc(spec.Scheds, o.Scheds, cluster.IsPinned):
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
	for _, o := range []*harness.Options{&runs, &planned} {
		if name, err := nodes.Canonical(o.Node); err == nil {
			o.Node = name
		}
	}
	asked, err := runs.ByKey()
	if err != nil {
		return err
	}
	were, err := planned.ByKey()
	if err != nil {
		return err
	}
	for _, unset := range []string{"no-footprints", "retry-lost"} { // are not stated
		for _, o := range []map[string]any{asked, were} {
			if _, stated := o[unset]; !stated {
				o[unset] = false
			}
		}
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

// extend plans more repetitions than the sweep has, and returns the runs that this adds. They
// follow the others in an order that is the same as if the sweep had been planned with all.
func (p *Plan) extend(reps int, say harness.Say) ([]results.Cell, error) {
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
	if has := p.allDevices; err == nil && len(had) != has {
		return refuse("resume sweep %d: its runs so far had %d GPUs, and here are %d: resume it where there are as many, or start a new sweep", id, len(had), has)
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
