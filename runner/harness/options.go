package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
)

// Options say how and where runs are made. All runs of a sweep share them. Their JSON has the
// names of the command's flags, and is what the store keeps.
type Options struct {
	Node    string      `json:"node"`    // nodes.Local or a simulated node, sim:...; "": to be settled
	Devices string      `json:"devices"` // GPUs of this machine; "": see live.OpenGPUs
	Workers int         `json:"workers"` // jobs on the node at once; 0: by the scheduler or the host
	Timeout Duration    `json:"timeout"` // of each job; 0: none
	MemCap  size.Amount `json:"mem-cap"` // memory that each GPU seems to have; not given: all
	Swap    size.Amount `json:"swap"`    // host memory that device memory can move to; not given: DefaultSwap
	SMCap   int         `json:"sm-cap"`  // SMs that jobs may use, through MPS; 0: all
	NoMPS   bool        `json:"no-mps"`
	Slow    string      `json:"slow"`            // devices of the run with the shares of their SMs that they keep, as in 1=0.25; "": all keep all
	Guard   bool        `json:"guard"`           // nothing is mapped beside allocations
	Strict  bool        `json:"strict"`          // a doubtful run is interrupted
	Context size.Amount `json:"context-reserve"` // memory reserved for each process's context
	Trace   bool        `json:"trace"`           // record kernels and copies
	Output  size.Amount `json:"output-limit"`    // that a job may write to its output files; not given: DefaultOutput; 0: any number
	// AfterOOM says what a job is that went on after a failed allocation: ByCheck or AlwaysOOM.
	AfterOOM string  `json:"after-oom"`
	Tag      string  `json:"tag"`
	Suite    string  `json:"suite"` // suites.Builtin or a directory
	Data     string  `json:"data"`  // directory of the suite's input files
	Runs     string  `json:"runs"`  // directory of the jobs' output files
	Seed     uint64  `json:"seed"`
	Noise    float64 `json:"sim-noise"` // σ of the logarithm of a phase's simulated length
	// Failures of simulated devices, as sim.ParseFailures reads them. They are recorded only if there are any.
	Failures string `json:"sim-failures,omitempty"`
	// NoFootprints: jobs whose mix states no memory do not ask first for what earlier runs of them reached. It is recorded only
	// where it is set.
	NoFootprints bool `json:"no-footprints,omitempty"`
	// RetryLost: jobs start again that a lost node of a cluster takes along, if they may be started again. It is recorded only where
	// it is set.
	RetryLost bool `json:"retry-lost,omitempty"`
	// Profiles is a file that says what jobs do alone, beside the catalog; "": none.
	Profiles string `json:"profiles"`
	// History is a file that says what jobs are expected to do; "": none.
	History string `json:"history"`
}

// Values of Options.AfterOOM. ByCheck: ok-after-oom if its output check passed, and else oom.
const (
	ByCheck   = "check"
	AlwaysOOM = "oom"
)

// Sizes by default. DefaultSwap is that of a scheduler that takes memory back.
var (
	DefaultContext = size.AmountOf(runner.DefaultContextBytes)
	DefaultOutput  = size.AmountOf(1 << 30)
	DefaultSwap    = size.AmountOf(32 << 30)
)

// DefaultData is the directory of the suite's input files, if the options name no other.
const DefaultData = "data"

// Duration is a time.Duration that reads and writes its text, such as 1m30s.
type Duration time.Duration

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// ByKey returns the options by their JSON names. Numbers are json.Number.
func (o Options) ByKey() (map[string]any, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("record options: %w", err)
	}
	var out map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return out, d.Decode(&out)
}

// ParseOptions reads options as JSON. An unknown name is an error, because a run without that
// option would be another run.
func ParseOptions(text []byte) (Options, error) {
	var o Options
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return o, d.Decode(&o)
}

// KnownProfiles are the profiles of the catalog and of the file that the options name.
func (o Options) KnownProfiles(ctx context.Context) (profiles.Set, error) {
	known := profiles.Catalog()
	if o.Profiles == "" {
		return known, nil
	}
	more, err := profiles.Load(ctx, o.Profiles)
	return known.With(more), Refuse(err)
}

// KnownHistory is the history file that the options name.
func (o Options) KnownHistory(ctx context.Context) (history.File, error) {
	if o.History == "" {
		return history.File{}, nil
	}
	known, err := history.Load(ctx, o.History)
	return known, Refuse(err)
}

// ReadMix reads a mix file, or looks a name up in the catalog. A file may name programs of the
// user's suite and those that known has profiles of. has tells which programs these are; it is
// nil where the options name neither a suite nor profiles. Once ctx ends, it no longer waits for what is read.
func (o Options) ReadMix(ctx context.Context, arg string, known profiles.Set, say Say) (mixes.Mix, func(program string) bool, error) {
	var read struct {
		mix mixes.Mix
		has func(program string) bool
	}
	err := UnlessStopped(ctx, func() (err error) {
		read.mix, read.has, err = o.readMix(arg, known)
		return err
	})
	if err != nil {
		return mixes.Mix{}, nil, err
	}
	for _, note := range read.mix.Notes {
		say("%s", note)
	}
	if n := len(read.mix.Jobs); n >= largeMix {
		say("a run of %d jobs takes about %.1f GiB of memory", n, float64(n)*bytesPerJob/(1<<30))
	}
	return read.mix, read.has, nil
}

// A mix of largeMix jobs or more is worth a word on the memory that a run of it takes. bytesPerJob is what was measured
// with a million jobs on a simulated node, rounded up.
const (
	largeMix    = 100_000
	bytesPerJob = 1300
)

// UnlessStopped does what can take long and cannot be stopped on its way. Once the program is to stop, it no longer
// waits for it.
func UnlessStopped(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o Options) readMix(arg string, known profiles.Set) (m mixes.Mix, has func(program string) bool, err error) {
	suite, err := suites.Own(o.Suite, o.Data)
	if err != nil {
		return m, nil, err
	}
	if suite.Name != "" || o.Profiles != "" {
		has = func(program string) bool { return suite.Has(program) || known.HasProgram(program) }
	}
	if m, err = suite.Mix(arg, has); err != nil {
		return m, nil, err
	}
	if !suites.IsMixFile(arg) {
		has = nil
	}
	return m, has, nil
}

// Say takes one line for the user.
type Say func(format string, args ...any)

// Once says each line the first time only.
func (say Say) Once() Say {
	var mu sync.Mutex
	said := map[string]bool{}
	return func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			said[line] = true
			say("%s", line)
		}
	}
}

// RequestError is a request that cannot be met as it is: the user has to ask for something
// else.
type RequestError struct{ err error }

func (e *RequestError) Error() string { return e.err.Error() }

func (e *RequestError) Unwrap() error { return e.err }

// Refuse makes an error a RequestError; nil stays nil.
func Refuse(err error) error {
	var already *RequestError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &RequestError{err}
}
