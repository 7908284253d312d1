// Package profiles says what jobs do when they run alone: the phases that the simulated node
// replays, and the footprints of programs that cannot tell theirs.
//
// rodinia31_h200.csv comes from one run of each Rodinia 3.1 CUDA program with the command lines of
// CASE's Table 1, alone on one NVIDIA H200 (driver 580, 16 cores). host_before is the wall time
// until the process first used CUDA. host_held is the remaining time without copies and kernels
// until the process exits; the device memory is held meanwhile. The kernel times of srad_v2 were
// lost at exit and are estimated from srad_v1's time per pixel and iteration. Its copy back is
// assumed to take as long as its copy in. Footprints come from the catalog (package mixes).
//
// darknet_h200.csv is what caserun profile measured of the builtin Darknet program on an H200. It
// has one traced run of each job of the catalog, of Table 5's command if the catalog's is shorter, and of the other
// networks in the authors' workload files (benchmarks/darknet/profile.sh). Tracing made the host's phases up to a third longer. docs/reference/profiles.md describes the
// format, and that of steps files, which say more of one job.
//
// torch_h200.csv is what benchmarks/frameworks.sh measured of the PyTorch programs on an H200, one traced run of each. A simulated
// job has its largest memory from its first allocation on; the program reaches it step by step.
//
// pilot has the steps of PILOT's programs (benchmarks/pilot) and of pagedos. All kernels of a program, and each phase of its host, take
// as long as in runs alone on an H200 (--phases). How that divides among kernels is estimated from the bytes that they move, and how they
// go through their memory follows from their loops. A step stands for the launches of several rounds. pagedos has its bursts for a minute.
// benchmarks/pilot/README.md says where the other figures come from.
//
// What the programs of benchmarks/node do follows from their arguments (node.go).
//
// suite_h100.csv is what benchmarks/profile.sh measured of the builtin suite under the lazy runtime on an H100 (one traced run
// of each job, two at a time, 32 cores). It is not in the catalog: docs/results/simulator.md says why.
package profiles

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/stats"
)

// Profile describes one job alone on the device on which it was measured. Durations are seconds.
type Profile struct {
	Job         string // a label; Command identifies the job
	Command     string // as mixes.Job.Command
	HostBeforeS float64
	HostHeldS   float64 // on the host while device memory is held
	HostAfterS  float64
	CopyInBytes int64
	CopyInS     float64
	KernelS     float64 // all kernels together, and copies and sets inside the device
	// KernelPhases divide KernelS; empty: all kernels have Footprint's grid.
	KernelPhases []KernelPhase
	// Rounds is how often the job repeats copies in, kernels, copies out and host work. All
	// rounds have equal shares. 0 means 1.
	Rounds       int
	CopyOutBytes int64
	CopyOutS     float64
	Kernels      Source
	Footprint    mixes.Footprint // a zero field is unknown
	GPU          string
	Driver       string
	MeasuredAt   time.Time // zero: unknown
	// Grows is whether the program's mix means it to state no memory: on GPUs it asks for memory as it comes to need it.
	Grows bool `json:"-"`
	// Listed are the steps of the job's steps file; nil: the phases above say what it does.
	Listed *Listing `json:",omitempty"`
}

// KernelPhase is the time in kernels whose grids fill about equally many SMs when they run alone.
type KernelPhase struct {
	SMs float64 // blocks over the blocks that one SM holds; may exceed the device's SMs
	S   float64 // seconds in total
}

// Source says from where the times of kernels and copies come.
type Source string

const (
	Traced    Source = "traced"
	Estimated Source = "estimated" // not measured, or records are missing
	Untraced  Source = "untraced"  // unknown, and part of HostHeldS
)

// WallS returns the job's duration alone, of several ranks that of the first. It leaves out copies of a steps file that
// say no time, messages, and what a rank waits for the others.
func (p Profile) WallS() float64 {
	if p.Listed != nil {
		sum := 0.0
		for _, s := range p.Listed.of(0) {
			sum += s.S
		}
		return sum
	}
	return p.HostBeforeS + p.HostHeldS + p.HostAfterS + p.CopyInS + p.KernelS + p.CopyOutS
}

func (p Profile) hostS() float64 { return p.HostBeforeS + p.HostHeldS + p.HostAfterS }

// lasting is the profile of the same job on another host, on which it lasts this many seconds alone: its host phases are longer or
// shorter in proportion. A job lasts for its copies and kernels at least.
func (p Profile) lasting(seconds float64) Profile {
	host := p.hostS()
	wanted := max(0, host+seconds-p.WallS())
	if host == 0 {
		p.HostHeldS = wanted
		return p
	}
	p.HostBeforeS, p.HostHeldS, p.HostAfterS = p.HostBeforeS*wanted/host, p.HostHeldS*wanted/host, p.HostAfterS*wanted/host
	return p
}

// Set finds profiles by a job's command, because names are not unique, and steps by their file.
type Set struct {
	byCommand map[string]Profile
	steps     map[string]*Listing
	estimated map[string]bool // commands whose profiles Estimate made of others
}

//go:embed rodinia31_h200.csv darknet_h200.csv torch_h200.csv pilot/*.jsonl
var files embed.FS

const torch = "torch_h200.csv"

var catalog = sync.OnceValue(func() Set {
	all := Set{}
	for _, name := range []string{"rodinia31_h200.csv", "darknet_h200.csv", torch} {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded above
		}
		s, err := Read(name, bytes.NewReader(text))
		if err != nil {
			panic(err)
		}
		for command, p := range s.byCommand {
			p.Grows = name == torch
			s.byCommand[command] = p
		}
		all = all.With(s)
	}
	for _, m := range mixes.Catalog() {
		for _, j := range m.Jobs {
			if l := listed(j); l != nil {
				all.estimates(j, l)
			}
			if e, l := endless(j); l != nil {
				all.estimates(e, l)
			}
		}
	}
	return all
})

// estimates adds the catalog's steps of a job.
func (s Set) estimates(j mixes.Job, l *Listing) {
	s.byCommand[j.Command()] = Profile{Job: j.Name, Command: j.Command(), Kernels: Estimated, Footprint: j.Footprint, GPU: "NVIDIA H200", Listed: l}
}

// endless is pagedos without bursts, whose kernel never ends, and its steps; nil: the job is another.
func endless(j mixes.Job) (mixes.Job, *Listing) {
	at := slices.Index(j.Args, "--burst")
	if at < 0 {
		return j, nil
	}
	l := listed(j)
	j.Args = slices.Delete(slices.Clone(j.Args), at, at+2)
	bursts := func(a, b Step) bool { return a.Kind == Kernel && b.Kind == Kernel }
	l.others.steps = slices.CompactFunc(l.others.steps, bursts)
	for i := range l.others.steps {
		s := &l.others.steps[i]
		s.Endless = s.Kind == Kernel
	}
	return j, l
}

// listed returns the catalog's steps of a job; nil: it has none. The programs that have steps take --memory managed.
func listed(j mixes.Job) *Listing {
	file := "pilot/" + j.Name + ".jsonl"
	text, err := files.ReadFile(file)
	if err != nil {
		return nil // a job of another kind
	}
	l, err := readSteps(file, text)
	if err != nil {
		panic(err)
	}
	if mixes.Managed(j) {
		for i := range l.others.steps {
			s := &l.others.steps[i]
			s.Managed = s.Kind == Allocate
			s.Binds, s.MovableS = s.Managed, 0
		}
	}
	return l
}

// Catalog returns the profiles of the catalog's jobs.
func Catalog() Set { return Set{byCommand: maps.Clone(catalog().byCommand)} }

// With returns the profiles of s and t. A profile of t takes precedence.
func (s Set) With(t Set) Set {
	return Set{union(s.byCommand, t.byCommand), union(s.steps, t.steps), union(s.estimated, t.estimated)}
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return all
}

// ErrNone is wrapped if a job has no profile.
var ErrNone = errors.New("no profile")

// Lookup returns the steps or the profile that the job's mix names, or else the profile of its
// command.
func (s Set) Lookup(j mixes.Job) (Profile, error) {
	if j.Steps != "" {
		steps, read := s.steps[j.Steps]
		if !read {
			return Profile{}, fmt.Errorf("steps file %s was not read", j.Steps)
		}
		return Profile{Job: j.Name, Command: j.Command(), Kernels: Estimated, Footprint: j.Footprint, Listed: steps}, nil
	}
	if j.Profile != nil {
		return stated(j), nil
	}
	p, ok := s.byCommand[j.Single().Command()]
	if !ok {
		p, ok = generated(j)
	}
	if !ok {
		return Profile{}, fmt.Errorf("%w of %q: a simulated node can run the catalog's jobs, jobs whose mix states a profile:, and what caserun profile measured and --profiles names", ErrNone, j.Command())
	}
	return p, nil
}

// All returns the profiles by command. Steps are not among them.
func (s Set) All() []Profile {
	var out []Profile
	for _, command := range slices.Sorted(maps.Keys(s.byCommand)) {
		out = append(out, s.byCommand[command])
	}
	return out
}

// Fitted returns the profiles of the jobs that were seen to last these seconds alone on the host of another GPU, by command, so that each
// lasts for the median there. It returns the commands that have no profile, too, and those whose copies and kernels alone last longer
// than the median, so that their profiles do.
func (s Set) Fitted(gpu string, seconds map[string][]float64) (fitted Set, missing, long []string) {
	fitted.byCommand = map[string]Profile{}
	for _, command := range slices.Sorted(maps.Keys(seconds)) {
		p, found := s.byCommand[command]
		if !found {
			missing = append(missing, command)
			continue
		}
		median := stats.Summarize(seconds[command], 1-stats.DefaultAlpha).Median
		if p.WallS()-p.hostS() > median {
			long = append(long, command)
		}
		p = p.lasting(median)
		p.GPU = gpu
		fitted.byCommand[command] = p
	}
	return fitted, missing, long
}

// HasProgram reports whether s has a profile of a command of this program.
func (s Set) HasProgram(program string) bool {
	for command := range s.byCommand {
		if of, _, _ := strings.Cut(command, " "); of == program {
			return true
		}
	}
	return false
}

// IsEstimated reports whether the job's profile was made of others by Estimate.
func (s Set) IsEstimated(j mixes.Job) bool {
	return j.Profile == nil && j.Steps == "" && s.estimated[j.Single().Command()]
}

// AllManaged reports whether all that a job allocates is managed memory.
func (s Set) AllManaged(j mixes.Job) bool {
	p, err := s.Lookup(j)
	if err != nil || p.Listed == nil {
		return false
	}
	for rank := range j.Processes() {
		if slices.ContainsFunc(p.Listed.of(rank), func(s Step) bool { return s.Kind == Allocate && !s.Managed }) {
			return false
		}
	}
	return true
}

// AnyGrows reports whether the profile of one of the jobs is of a program that grows.
func (s Set) AnyGrows(jobs []mixes.Job) bool {
	return slices.ContainsFunc(jobs, func(j mixes.Job) bool { return s.byCommand[j.Single().Command()].Grows })
}

// Declare returns the jobs with the footprints of their profiles, for jobs that state no footprint
// and have a profile. In live runs programs that grow get none.
func (s Set) Declare(jobs []mixes.Job, live bool) []mixes.Job {
	out := make([]mixes.Job, len(jobs))
	for i, j := range jobs {
		if p, ok := s.byCommand[j.Single().Command()]; ok && j.Footprint == (mixes.Footprint{}) && (!live || !p.Grows) {
			j = j.WithFootprint(p.Footprint)
		}
		out[i] = j
	}
	return out
}
