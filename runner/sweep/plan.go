// Package sweep plans, runs and resumes sweeps: matrices of runs on one node.
package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/nodes"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

// What a sweep has by default. Seven is the least number of repetitions with which two arms that do
// not overlap differ at p < 0.001. A simulated sweep has noise, because a single figure may be the
// tail of a distribution. If the user wants it without noise, one repetition is as good as seven.
const (
	DefaultReps   = 7
	DefaultNoise  = 0.01
	NoiselessReps = 1
)

// maxRuns bounds a plan, which is in memory and in the store before the first run.
const maxRuns = 100_000

// Options are what a sweep has beside the options of its runs.
type Options struct {
	Name    string
	Mixes   []string // one each
	Scheds  []string
	Probes  []results.Probe // none: the default
	Reps    int             // 0: by default
	Warmups int             // -1: by default
	Jobs    int             // runs at once

	// NoiseGiven says that the user wants the runs' noise, also if it is 0. Otherwise a simulated
	// sweep whose runs have a noise of 0 gets DefaultNoise.
	NoiseGiven bool
}

// Noise is the noise of a simulated sweep of runs with these options.
func (o Options) Noise(runs harness.Options) float64 {
	if runs.Noise == 0 && !o.NoiseGiven {
		return DefaultNoise
	}
	return runs.Noise
}

// PlanError is a sweep that cannot be as it was asked for: the user has to ask for another.
type PlanError struct{ err error }

func (e *PlanError) Error() string { return e.err.Error() }

func (e *PlanError) Unwrap() error { return e.err }

func refuse(format string, args ...any) error { return &PlanError{fmt.Errorf(format, args...)} }

// Validate checks what needs no node. A new sweep takes mixes and schedulers.
func (o Options) Validate(isNew bool) error {
	if isNew && (len(o.Mixes) == 0 || len(o.Scheds) == 0) {
		return refuse("a sweep takes mixes and schedulers: give --mixes W1..W8 --scheds sa,case-alg3, or a FILE with both")
	}
	if key, err := new(Distinct).Check(o); err != nil {
		return refuse("--%s: %w", key, err)
	}
	for _, text := range o.Scheds {
		_, node := cluster.Cut(text)
		_, unnamed, _ := schedulers.CutName(node)
		if name, parameters, _ := strings.Cut(unnamed, ":"); isNew && schedulers.WithoutRetired(name, parameters) != parameters {
			_, err := policies.Parse(node, 1)
			return refuse("--scheds: %w", err)
		}
	}
	if !utf8.ValidString(o.Name) || strings.ContainsFunc(o.Name, unicode.IsControl) {
		return refuse("name %q: want one line of UTF-8 text", o.Name)
	}
	return nil
}

// Distinct finds what the lists of a sweep name twice.
type Distinct struct {
	checked [3]int // items of each list
	seen    [3]map[string]bool
	named   map[string]string // scheduler of a name
}

// Check checks the items that the lists have since it was called before. key is the list with the error.
func (d *Distinct) Check(o Options) (key string, err error) {
	for i, list := range []struct {
		key   string
		items int
		item  func(int) string
	}{
		{"mixes", len(o.Mixes), func(i int) string { return o.Mixes[i] }},
		{"scheds", len(o.Scheds), func(i int) string { return o.Scheds[i] }},
		{"probes", len(o.Probes), func(i int) string { return o.Probes[i].String() }},
	} {
		if d.seen[i] == nil {
			d.seen[i] = map[string]bool{}
		}
		for ; d.checked[i] < list.items; d.checked[i]++ {
			item := list.item(d.checked[i])
			if d.seen[i][item] {
				return list.key, fmt.Errorf("%s is named twice, which would be one arm: leave one out", item)
			}
			d.seen[i][item] = true
			if list.key == "scheds" {
				err = d.name(item)
			}
			if err != nil {
				return list.key, err
			}
		}
	}
	return "", nil
}

func (d *Distinct) name(text string) error {
	name, scheduler, _ := schedulers.CutName(text)
	if name == "" {
		return nil
	}
	if other := d.named[name]; other != "" {
		return fmt.Errorf("%s is the name of %s and of %s: give each a name of its own", name, other, scheduler)
	}
	if d.named == nil {
		d.named = map[string]string{}
	}
	d.named[name] = scheduler
	return nil
}

// Fit refuses options that a node cannot have.
func (o Options) Fit(mode results.Mode, node string) error {
	if mode == results.Live && o.Jobs > 1 {
		return refuse("--jobs %d: runs on %s have its GPUs to themselves, one at a time: leave --jobs out, or name a simulated node", o.Jobs, node)
	}
	return nil
}

// Plan is a sweep that can run: its node, mixes and schedulers are known to fit each other.
type Plan struct {
	Spec    results.Spec
	Options harness.Options // with the node settled; the seed is the sweep's
	Mode    results.Mode

	devices    int         // of a node
	allDevices int         // of all nodes of a cluster
	machine    string      // where its live runs are made now
	mixes      []mixes.Mix // as Spec.Mixes
	scheds     []policies.Scheduler
	profiles   profiles.Set
	history    history.File
}

// New plans a sweep on its node.
func New(ctx context.Context, runs harness.Options, o Options, say harness.Say) (_ *Plan, err error) {
	var chosen string
	if runs.Node, err = nodes.Settle(ctx, runs, func(format string, args ...any) { chosen = fmt.Sprintf(format, args...) }); err != nil {
		return nil, err
	}
	p := &Plan{Mode: results.Live}
	if !nodes.IsLive(runs.Node) {
		p.Mode, runs.Noise = results.Simulated, o.Noise(runs)
	}
	if err := o.Fit(p.Mode, runs.Node); err != nil {
		return nil, err
	}
	backend, err := nodes.Open(ctx, runs, say)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	harness.SayIgnored(backend, say)
	p.Spec = results.Spec{Name: o.Name, Scheds: slices.Clone(o.Scheds), Probes: o.Probes, Reps: o.Reps, Warmups: o.Warmups}
	if len(o.Probes) == 0 {
		p.Spec.Probes = []results.Probe{results.Lazy}
	}
	p.Options = runs
	switch still := p.still(); {
	case o.Reps == 0 && still:
		p.Spec.Reps = NoiselessReps
	case o.Reps == 0:
		p.Spec.Reps = DefaultReps
	case o.Reps > 1 && still:
		say("SIMULATED without noise, the %d repetitions of an arm are equal: give --sim-noise %v, or --reps 1", o.Reps, DefaultNoise)
	}
	if o.Warmups < 0 {
		p.Spec.Warmups = 0
		if p.Mode == results.Live {
			p.Spec.Warmups = 1
		}
	}
	p.Spec.Mixes = make([]results.SpecMix, len(o.Mixes)) // settled below
	if err := p.fewEnough(p.Spec.Reps); err != nil {
		return nil, err
	}
	if p.Spec.Program, err = thisProgram(); err != nil {
		return nil, err
	}
	if err := p.settle(ctx, backend, runs, o.Mixes, say); err != nil {
		return nil, err
	}
	if chosen != "" {
		say("%s", chosen)
	}
	return p, nil
}

// still reports whether repetitions are equal, because nothing draws them.
func (p *Plan) still() bool { return p.Mode == results.Simulated && p.Options.Noise == 0 }

// Repeats says how often a simulated plan repeats each arm, and with what noise.
func (p *Plan) Repeats() string { return results.Repeats(p.Spec.Reps, &p.Options.Noise) }

// fewEnough refuses so many repetitions that the plan is too long.
func (p *Plan) fewEnough(reps int) error {
	// As floats, which do not overflow.
	perMix := float64(reps)*float64(len(p.Spec.Scheds)) + float64(p.Spec.Warmups)
	if n := perMix * float64(len(p.Spec.Mixes)*len(p.Spec.Probes)); n > maxRuns {
		return refuse("a plan of %.0f runs: want %d at most: fewer repetitions or arms, or several sweeps", n, maxRuns)
	}
	return nil
}

// thisProgram is read once, because it is large.
var thisProgram = sync.OnceValues(func() (results.Program, error) {
	var p results.Program
	p.Version, p.Revision = harness.Version()
	path, err := os.Executable()
	if err == nil {
		p.SHA256, err = harness.Hash(path)
	}
	if err != nil {
		return p, fmt.Errorf("record the program: %w", err)
	}
	return p, nil
})

// settle loads the mixes, says what there is to say of them, and checks every arm on the node.
func (p *Plan) settle(ctx context.Context, backend harness.Backend, runs harness.Options, args []string, say harness.Say) error {
	p.Options = runs
	byKey, err := runs.ByKey()
	if err != nil {
		return err
	}
	if p.Spec.Settings, err = json.Marshal(byKey); err != nil {
		return fmt.Errorf("record the sweep's settings: %w", err)
	}
	if p.profiles, err = runs.KnownProfiles(ctx); err != nil {
		return err
	}
	if p.history, err = runs.KnownHistory(ctx); err != nil {
		return err
	}
	names := map[string]string{}
	p.Spec.Mixes = nil
	for _, arg := range args {
		mix, _, err := runs.ReadMix(ctx, arg, p.profiles, say)
		if err != nil {
			return err
		}
		if other, taken := names[mix.Name]; taken {
			return refuse("mixes %s and %s are both called %s, which would make them one arm: leave one out, or give it another name",
				other, arg, mix.Name)
		}
		names[mix.Name] = arg
		jobs, err := digest(mix.Content())
		if err != nil {
			return fmt.Errorf("mix %s: %w", mix.Name, err)
		}
		if p.profiles, err = nodes.Know(ctx, runs, &mix, p.profiles, say); err != nil {
			return &PlanError{err}
		}
		sum, err := p.digest(mix)
		if err != nil {
			return err
		}
		if ctx.Err() != nil { // a large mix takes a second
			return context.Cause(ctx)
		}
		p.mixes = append(p.mixes, mix)
		p.Spec.Mixes = append(p.Spec.Mixes, results.SpecMix{Arg: arg, Name: mix.Name, SHA256: sum, Jobs: jobs})
	}
	var threads int
	if p.devices, threads, p.allDevices, err = backend.Size(); err != nil {
		return err
	}
	if p.machine, err = backend.Machine(); err != nil {
		return err
	}
	arms := map[string]string{}
	for i, text := range p.Spec.Scheds {
		s, _, err := harness.Request{Configuration: harness.Configuration{Options: runs, Sched: text}, Mix: p.mixes[0]}.Scheduler(p.devices, threads)
		if err != nil {
			return err
		}
		key := s.Name + ":" + s.Parameters()
		if other, taken := arms[key]; taken {
			return refuse("schedulers %s and %s are both %s, which would make them one arm: leave one out", other, text, strings.TrimSuffix(key, ":"))
		}
		arms[key] = text
		p.Spec.Scheds[i] = cluster.PinnedText(s, text) // so that a program that changes meanwhile stops the sweep
		p.scheds = append(p.scheds, s)
	}
	return p.check(backend)
}

// check finds what would stop a run of the sweep before it starts.
func (p *Plan) check(backend harness.Backend) error {
	for _, mix := range p.mixes {
		for _, probe := range p.Spec.Probes {
			if err := backend.CheckMix(mix, probe, p.profiles); err != nil {
				return err
			}
		}
	}
	for _, s := range p.scheds {
		if err := backend.CheckScheduler(s); err != nil {
			return err
		}
		for _, mix := range p.mixes {
			if err := harness.CheckDevices(mix, s, p.devices); err != nil {
				return err
			}
		}
	}
	return nil
}

// digest is the sha256 of what a mix's jobs are and what is known of them.
func (p *Plan) digest(mix mixes.Mix) (string, error) {
	type known struct {
		Job     mixes.Job
		Profile *profiles.Profile
		History map[string]results.Known `json:",omitempty"` // by GPU
	}
	var all []known
	for _, j := range mix.Jobs {
		k := known{Job: j, History: p.history.Of(j.Command())}
		if profile, err := p.profiles.Lookup(j); err == nil {
			k.Profile = &profile
		}
		all = append(all, k)
	}
	var content any = all
	if mix.Arrivals != nil {
		content = []any{all, mix.Arrivals}
	}
	sum, err := digest(content)
	if err != nil {
		return "", fmt.Errorf("mix %s: %w", mix.Name, err)
	}
	return sum, nil
}

func digest(v any) (string, error) {
	text, err := json.Marshal(v)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// Cells are all runs of the sweep in the order of execution. First each mix runs under the
// first scheduler, with each probe, to warm the node up: its programs and data come into memory, and clocks
// rise. Then come the repetitions. Each runs all arms in an order drawn anew from the seed, so
// that a drift of the node falls on all arms alike.
func (p *Plan) Cells() []results.Cell {
	var cells []results.Cell
	probes := p.Spec.Probes
	add := func(mix, sched, probe, repetition int, warmup bool) {
		c := results.Cell{Position: len(cells), Mix: p.mixes[mix].Name, MixSource: p.mixes[mix].Source,
			Scheduler: p.Spec.Scheds[sched], Probe: probes[probe], Repetition: repetition, Warmup: warmup}
		c.Seed = cellSeed(p.Options.Seed, c, p.mixes[mix].Chance())
		cells = append(cells, c)
	}
	for repetition := range p.Spec.Warmups {
		for mix := range p.mixes {
			for probe := range probes {
				add(mix, 0, probe, repetition+1, true)
			}
		}
	}
	ways := len(p.scheds) * len(probes) // in which a mix is run
	arms := len(p.mixes) * ways
	for repetition := range p.Spec.Reps {
		for _, arm := range rand.New(rand.NewPCG(p.Options.Seed, uint64(repetition))).Perm(arms) {
			add(arm/ways, arm%len(p.scheds), arm%ways/len(p.scheds), repetition+1, false)
		}
	}
	return cells
}

// cellSeed is the seed of a run. It depends on the sweep's seed and on what the run is, so that
// it is the same whatever else the sweep has, and however the user calls an arm, and differs between repetitions and between
// arms. It has 53 bits, which every reader of JSON keeps. With common all schedulers have one seed, because the mix leaves
// arrivals or lengths of jobs to it: each repetition draws them anew, and the same for all.
func cellSeed(seed uint64, c results.Cell, common bool) uint64 {
	_, scheduler, _ := schedulers.CutName(c.Scheduler)
	if common {
		scheduler = ""
	}
	text := fmt.Appendf(nil, "%d\n%s\n%s\n%d\n%t", seed, c.Mix, scheduler, c.Repetition, c.Warmup)
	if c.Probe != results.Lazy {
		text = fmt.Appendf(text, "\n%s", c.Probe)
	}
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:8]) >> 11
}

// Store stores the plan, and returns the sweep's number. Unless allowSimulated, it refuses a tag
// that has runs of the other mode. The end of ctx does not stop it.
func (p *Plan) Store(ctx context.Context, db *store.Store, allowSimulated bool, say harness.Say) (id int64, err error) {
	ctx = context.WithoutCancel(ctx)
	if !allowSimulated {
		if err := harness.CheckTag(ctx, db, p.Options.Tag, p.Mode); err != nil {
			return 0, err
		}
	}
	w, err := p.row(ctx, db)
	if err != nil {
		return 0, err
	}
	cells := p.Cells()
	if id, err = db.CreateSweep(ctx, w, cells); err != nil {
		return 0, err
	}
	of := ""
	if p.Mode == results.Simulated {
		of = ", " + p.Repeats()
	}
	say("sweep %d: %s on %s%s", id, size.Count(len(cells), "run"), w.Node, of)
	return id, nil
}

// row is the plan as a store keeps it.
func (p *Plan) row(ctx context.Context, db *store.Store) (results.Sweep, error) {
	times, err := p.Estimates(ctx, db)
	if err != nil {
		return results.Sweep{}, err
	}
	p.Foresee(times)
	text, err := json.Marshal(p.Spec)
	if err != nil {
		return results.Sweep{}, fmt.Errorf("record the sweep: %w", err)
	}
	w := results.Sweep{Name: p.Spec.Name, Tag: p.Options.Tag, Spec: string(text), Node: p.Options.Node, Mode: p.Mode,
		Seed: p.Options.Seed, Repetitions: p.Spec.Reps}
	if p.Mode == results.Live {
		w.CreatedAt = new(time.Now())
	}
	return w, nil
}

// Stored returns the number of the store's latest sweep that has this plan; 0: none has.
func (p *Plan) Stored(ctx context.Context, db *store.Store) (id int64, err error) {
	own, err := p.row(ctx, db)
	if err != nil {
		return 0, err
	}
	all, err := db.Sweeps(ctx)
	for _, w := range all {
		if w.Spec == own.Spec && w.Name == own.Name && w.Tag == own.Tag && w.Node == own.Node && w.Mode == own.Mode && w.Seed == own.Seed {
			id = max(id, w.ID)
		}
	}
	return id, err
}

// names are the names of the plan's arms, which do not depend on how far the sweep is.
func (p *Plan) names() results.Names {
	var runs []results.Run
	for _, probe := range p.Spec.Probes {
		for i := range p.scheds {
			runs = append(runs, p.armOf(i, probe))
		}
	}
	return results.NamesOf(runs)
}

// armOf is what a run of a scheduler of the plan has of its arm.
func (p *Plan) armOf(sched int, probe results.Probe) results.Run {
	s := p.scheds[sched]
	return results.Run{Scheduler: s.Name, Parameters: s.Parameters(), Arm: s.Arm, Probe: probe}
}

// mixOf is the mix of a cell.
func (p *Plan) mixOf(c results.Cell) mixes.Mix {
	return p.mixes[slices.IndexFunc(p.Spec.Mixes, func(s results.SpecMix) bool { return s.Name == c.Mix })]
}
