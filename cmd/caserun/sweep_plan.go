package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/sim"
	"github.com/caserun/caserun/schedulers/policies"
)

// Defaults of --reps: seven is the least with which two arms that do not overlap
// differ at p < 0.001. A simulated node without noise gives the same figures
// every time.
const (
	defaultReps    = 7
	defaultSimReps = 1
)

// maxRuns bounds a plan, which is in memory and in the store before the first run.
const maxRuns = 100_000

// sweepSpec is what a sweep was planned from, as the store keeps it: enough to
// go on with it, and to notice that something it depends on has changed.
type sweepSpec struct {
	Name     string         `json:"name,omitempty"`
	Mixes    []specMix      `json:"mixes"`
	Scheds   []string       `json:"scheds"`
	Reps     int            `json:"reps"`
	Warmups  int            `json:"warmups"`
	Settings map[string]any `json:"settings"` // of addNodeFlags, by key
	Program  program        `json:"program"`
}

// readSpec is what a sweep of the store was planned from.
func readSpec(w results.Sweep) (sweepSpec, error) {
	var spec sweepSpec
	d := json.NewDecoder(strings.NewReader(w.Spec))
	d.UseNumber() // seeds exceed what a float holds
	if err := d.Decode(&spec); err != nil {
		return spec, infrastructureError(fmt.Errorf("read what sweep %d was planned from: %w", w.ID, err))
	}
	return spec, nil
}

// sort puts cells into the order in which the user named mixes and schedulers.
func (s sweepSpec) sort(cells []results.Cell) {
	place := map[string]int{}
	for i, m := range s.Mixes {
		place[m.Name] = i * len(s.Scheds)
	}
	of := func(c results.Cell) int { return place[c.Mix] + slices.Index(s.Scheds, c.Scheduler) }
	slices.SortStableFunc(cells, func(a, b results.Cell) int { return of(a) - of(b) })
}

// specMix is a mix as it was when the sweep was planned.
type specMix struct {
	Arg    string `json:"arg"` // as the user named it
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of its jobs, and of their profiles
	Jobs   string `json:"jobs_sha256,omitempty"`
}

// program is the build that planned a sweep.
type program struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	SHA256   string `json:"sha256"`
}

func thisProgram() (program, error) {
	var p program
	p.Version, p.Revision = buildVersion()
	path, err := os.Executable()
	if err == nil {
		p.SHA256, err = hashFile(path)
	}
	if err != nil {
		return p, infrastructureError(fmt.Errorf("record the program: %w", err))
	}
	return p, nil
}

// matrix is a sweep that can run: its node, mixes and schedulers are known to
// be fit for each other.
type matrix struct {
	spec     sweepSpec
	config   config // with the node settled; Sched and Seed are each run's own
	mode     results.Mode
	devices  int
	mixes    []mixes.Mix // as spec.Mixes
	scheds   []policies.Scheduler
	profiles profiles.Set
}

// newMatrix settles a sweep on its node.
func newMatrix(ctx context.Context, c config, o sweepOptions, stderr io.Writer) (*matrix, error) {
	var err error
	if c.Node, err = settleNode(c, stderr); err != nil {
		return nil, err
	}
	m := &matrix{mode: results.Simulated}
	if c.Node == localNode {
		m.mode = results.Live
	}
	if err := o.fit(m.mode, c.Node); err != nil {
		return nil, err
	}
	if m.mode == results.Simulated {
		c.sayIgnored(c.Node, stderr)
	}
	m.spec = sweepSpec{Name: o.Name, Scheds: o.Scheds, Reps: o.Reps, Warmups: o.Warmups}
	still := m.mode == results.Simulated && c.Noise == 0
	switch {
	case o.Reps == 0 && still:
		m.spec.Reps = defaultSimReps
	case o.Reps == 0:
		m.spec.Reps = defaultReps
	case o.Reps > 1 && still:
		fmt.Fprintf(stderr, "caserun: SIMULATED without noise, the %d repetitions of an arm are equal: give --sim-noise 0.01, or --reps 1\n", o.Reps)
	}
	if o.Warmups < 0 {
		m.spec.Warmups = 0
		if m.mode == results.Live {
			m.spec.Warmups = 1
		}
	}
	// As floats, which do not overflow.
	if runs := float64(m.spec.Reps)*float64(len(o.Mixes)*len(o.Scheds)) + float64(m.spec.Warmups)*float64(len(o.Mixes)); runs > maxRuns {
		return nil, usageError(fmt.Errorf("a plan of %.0f runs: want %d at most: fewer repetitions or arms, or several sweeps", runs, maxRuns))
	}
	if m.spec.Program, err = thisProgram(); err != nil {
		return nil, err
	}
	return m, m.settle(ctx, c, o.Mixes, stderr)
}

// settle loads the mixes, with what there is to say of them on stderr, and checks every
// arm on the node.
func (m *matrix) settle(ctx context.Context, c config, args []string, stderr io.Writer) error {
	m.config = c
	m.spec.Settings = c.sweepSettings()
	var err error
	if m.profiles, err = c.knownProfiles(ctx); err != nil {
		return err
	}
	names := map[string]string{}
	for _, arg := range args {
		mix, err := loadMix(arg, c, m.profiles, stderr)
		if err != nil {
			return err
		}
		if other, taken := names[mix.Name]; taken {
			return usageError(fmt.Errorf("mixes %s and %s are both called %s, which would make them one arm: leave one out, or give it another name",
				other, arg, mix.Name))
		}
		names[mix.Name] = arg
		jobs, err := digest(mix.Jobs)
		if err != nil {
			return fmt.Errorf("mix %s: %w", mix.Name, err)
		}
		mix.Jobs = m.profiles.Declare(mix.Jobs)
		sum, err := m.digest(mix)
		if err != nil {
			return err
		}
		m.mixes = append(m.mixes, mix)
		m.spec.Mixes = append(m.spec.Mixes, specMix{Arg: arg, Name: mix.Name, SHA256: sum, Jobs: jobs})
	}
	var threads int
	if m.devices, threads, err = nodeSize(c); err != nil {
		return err
	}
	arms := map[string]string{}
	for _, text := range m.spec.Scheds {
		c.Sched = text
		s, _, err := (request{config: c, mix: m.mixes[0]}).scheduler(m.devices, threads)
		if err != nil {
			return err
		}
		key := s.Name + ":" + s.Parameters()
		if other, taken := arms[key]; taken {
			return usageError(fmt.Errorf("schedulers %s and %s are both %s, which would make them one arm: leave one out", other, text, key))
		}
		arms[key] = text
		m.scheds = append(m.scheds, s)
	}
	return m.check()
}

// check finds what would stop a run of the sweep before it starts.
func (m *matrix) check() error {
	c := m.config
	for _, mix := range m.mixes {
		if m.mode == results.Live {
			if _, _, err := resolve(c, mix.Jobs); err != nil {
				return infrastructureError(err)
			}
			continue
		}
		if c.Trace {
			return simTraceError(c.Node)
		}
		if c.Noise < 0 {
			return usageError(fmt.Errorf("--sim-noise %v: want 0 or more", c.Noise))
		}
		node, err := sim.ParseNode(c.Node)
		if err == nil {
			_, err = sim.NewExecutor(sim.Config{Node: node, Jobs: mix.Jobs, Profiles: m.profiles, Noise: c.Noise}, nil)
		}
		if err != nil {
			return usageError(toMeasure(fmt.Errorf("mix %s: %w", mix.Name, err), c, mix))
		}
	}
	for _, s := range m.scheds {
		if m.mode != results.Live {
			if err := checkSimulated(s, c.Node); err != nil {
				return err
			}
			continue
		}
		if _, err := (request{config: c}).nodeOptions(s, nil); err != nil {
			return infrastructureError(err)
		}
	}
	return nil
}

// digest is the sha256 of what a mix's jobs are and what is known of them.
func (m *matrix) digest(mix mixes.Mix) (string, error) {
	type known struct {
		Job     mixes.Job
		Profile *profiles.Profile
	}
	var all []known
	for _, j := range mix.Jobs {
		k := known{Job: j}
		if p, err := m.profiles.Lookup(j); err == nil {
			k.Profile = &p
		}
		all = append(all, k)
	}
	sum, err := digest(all)
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

// plan is every run of the sweep in the order of execution. First each mix warms
// the node up, under the first scheduler: its programs and data come into
// memory, clocks rise. Then, repetition by repetition, all arms in an order
// drawn anew from the seed, so that a drift of the node falls on all alike.
func (m *matrix) plan() []results.Cell {
	var cells []results.Cell
	add := func(mix, sched, repetition int, warmup bool) {
		c := results.Cell{Position: len(cells), Mix: m.mixes[mix].Name, MixSource: m.mixes[mix].Source,
			Scheduler: m.spec.Scheds[sched], Repetition: repetition, Warmup: warmup}
		c.Seed = cellSeed(m.config.Seed, c)
		cells = append(cells, c)
	}
	for repetition := range m.spec.Warmups {
		for mix := range m.mixes {
			add(mix, 0, repetition+1, true)
		}
	}
	arms := len(m.mixes) * len(m.scheds)
	for repetition := range m.spec.Reps {
		for _, arm := range rand.New(rand.NewPCG(m.config.Seed, uint64(repetition))).Perm(arms) {
			add(arm/len(m.scheds), arm%len(m.scheds), repetition+1, false)
		}
	}
	return cells
}

// cellSeed is the seed of a run: a function of the sweep's seed and of what the
// run is, so that it is the same whatever else the sweep has, and another for
// each repetition and arm. It has 53 bits, which every reader of JSON keeps.
func cellSeed(seed uint64, c results.Cell) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s\n%d\n%t", seed, c.Mix, c.Scheduler, c.Repetition, c.Warmup))
	return binary.BigEndian.Uint64(sum[:8]) >> 11
}

// record is the sweep's row before it starts.
func (m *matrix) record() (results.Sweep, error) {
	text, err := json.Marshal(m.spec)
	if err != nil {
		return results.Sweep{}, fmt.Errorf("record the sweep: %w", err)
	}
	w := results.Sweep{Name: m.spec.Name, Tag: m.config.Tag, Spec: string(text), Node: m.config.Node, Mode: m.mode,
		Seed: m.config.Seed, Repetitions: m.spec.Reps}
	if m.mode == results.Live {
		w.CreatedAt = new(time.Now())
	}
	return w, nil
}

// mixOf is the mix of a cell.
func (m *matrix) mixOf(c results.Cell) mixes.Mix {
	return m.mixes[slices.IndexFunc(m.spec.Mixes, func(s specMix) bool { return s.Name == c.Mix })]
}
