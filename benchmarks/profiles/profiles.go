// Package profiles holds what jobs do when they run alone: the phases that the
// simulated node replays, and the footprint of programs that cannot say theirs.
//
// rodinia31_h200.csv was derived from one run each of the Rodinia 3.1 CUDA
// programs with the command lines of CASE's Table 1, alone on one NVIDIA H200
// (driver 580, 16 cores). host_before is wall time until the process first
// touched CUDA, host_held what remains after copies and kernels until it
// exits: the device memory is held for that long. The kernel times of srad_v2
// were lost at exit and are estimated from srad_v1's time per pixel and
// iteration; its copy back is taken to last as long as its copy in. Footprints
// are left to the catalog (package mixes).
//
// darknet_h200.csv is what caserun profile measured of the builtin Darknet program on an
// H200: one traced run of each job of the catalog, and of the command that Table 5 prints
// where the catalog's is shorter. Tracing made the host's part of them up to a third longer.
// docs/profile.md describes the form.
package profiles

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/caserun/caserun/mixes"
)

// Profile is one job alone on the device it was measured on. Durations are
// seconds.
type Profile struct {
	Job         string // a label; Command identifies the job
	Command     string // as mixes.Job.Command
	HostBeforeS float64
	HostHeldS   float64 // on the host with device memory held
	HostAfterS  float64
	CopyInBytes int64
	CopyInS     float64
	KernelS     float64 // all kernels together, and copies and sets within the device
	// KernelPhases divide KernelS; none: all kernels have Footprint's grid.
	KernelPhases []KernelPhase
	// Rounds is how often the job goes from copies in to kernels, copies out and the
	// host. Each round has an equal share of each. 0 is 1.
	Rounds       int
	CopyOutBytes int64
	CopyOutS     float64
	Kernels      Source
	Footprint    mixes.Footprint // a zero field is unknown
	GPU          string
	Driver       string
	MeasuredAt   time.Time // zero: unknown
}

// KernelPhase is the time in kernels whose grids fill about as many SMs, alone on the
// device.
type KernelPhase struct {
	SMs float64 // blocks over what one SM holds of them; may be more than a device has
	S   float64 // seconds in all
}

// Source says where the times of kernels and copies come from.
type Source string

const (
	Traced    Source = "traced"
	Estimated Source = "estimated" // no measurement, or one with records missing
	Untraced  Source = "untraced"  // both are unknown, and part of HostHeldS
)

// WallS is the job's duration alone.
func (p Profile) WallS() float64 {
	return p.HostBeforeS + p.HostHeldS + p.HostAfterS + p.CopyInS + p.KernelS + p.CopyOutS
}

// Set finds profiles by the command of a job: names are not unique.
type Set struct{ byCommand map[string]Profile }

//go:embed rodinia31_h200.csv darknet_h200.csv
var files embed.FS

var catalog = sync.OnceValue(func() Set {
	all := Set{}
	for _, name := range []string{"rodinia31_h200.csv", "darknet_h200.csv"} {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // a fault of the build, which every test of the package meets
		}
		s, err := Read(name, bytes.NewReader(text))
		if err != nil {
			panic(err)
		}
		all = all.With(s)
	}
	return all
})

// Catalog are the profiles of the catalog's jobs.
func Catalog() Set { return Set{maps.Clone(catalog().byCommand)} }

// With is s with the profiles of t, which go before those of s.
func (s Set) With(t Set) Set {
	all := maps.Clone(s.byCommand)
	if all == nil {
		all = map[string]Profile{}
	}
	maps.Copy(all, t.byCommand)
	return Set{all}
}

// ErrNone is wrapped where a job has no profile.
var ErrNone = errors.New("no profile")

// Lookup returns the profile of a job's command.
func (s Set) Lookup(j mixes.Job) (Profile, error) {
	p, ok := s.byCommand[j.Command()]
	if !ok {
		return Profile{}, fmt.Errorf("%w of %q: a simulated node can run the catalog's jobs, and what caserun profile measured and --profiles names", ErrNone, j.Command())
	}
	return p, nil
}

// HasProgram reports whether there is a profile of a command of this program.
func (s Set) HasProgram(program string) bool {
	for command := range s.byCommand {
		if of, _, _ := strings.Cut(command, " "); of == program {
			return true
		}
	}
	return false
}

// Declare gives the jobs that state no footprint that of their profiles, where
// there is one.
func (s Set) Declare(jobs []mixes.Job) []mixes.Job {
	out := make([]mixes.Job, len(jobs))
	for i, j := range jobs {
		if p, ok := s.byCommand[j.Command()]; ok && j.Footprint == (mixes.Footprint{}) {
			j = j.WithFootprint(p.Footprint)
		}
		out[i] = j
	}
	return out
}
