package profiles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
	"github.com/caserun/caserun/userfile/strictjson"
)

// StepKind is what a job does in a step.
type StepKind uint8

const (
	Host     StepKind = iota // works on the host
	Allocate                 // allocates an object
	CopyIn                   // copies to an object
	CopyOut                  // copies from an object
	Kernel                   // runs a kernel
	Free                     // frees an object
	Barrier                  // waits until all ranks of the job have come
	Message                  // ranks of the job send to others
)

// Scale says with what the seconds of a kernel or of a host step grow on another node than that on which they were measured.
type Scale uint8

const (
	ByKind   Scale = iota // kernels with the device, host steps with the host
	ByDevice              // of a host step: as kernels, because the program works as long as they last
	ByMemory              // with the bandwidth of the device's memory, by which the kernel is bound
	Unscaled              // the program measures how fast the node is, and works so long
)

func (s *Scale) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"device"`:
		*s = ByDevice
	case `"memory"`:
		*s = ByMemory
	case `"none"`:
		*s = Unscaled
	default:
		return fmt.Errorf(`scale is %s: write "device", as kernels last, "memory", as the memory of the device is fast, or "none", as long on each node`, text)
	}
	return nil
}

// Step is one thing that a job does. Its length is that of the job alone, on the device on which
// it was measured.
type Step struct {
	Kind   StepKind
	S      float64 // seconds; a copy lasts at least as long as its bytes take on the link
	Scale  Scale   `json:",omitempty"` // of S
	Object string  // that is allocated, copied or freed
	Bytes  int64   // that are allocated, copied or sent

	Managed bool // the object is unified memory
	// MovableS is how many seconds longer the program takes for an object where its memory can move.
	MovableS float64 `json:",omitempty"`
	// Binds: the allocation asks for a device at once, as that of managed memory always does.
	Binds bool

	// The grid of a kernel, and how many of its blocks an SM holds at once; 0: unknown.
	Blocks          uint64
	ThreadsPerBlock uint32
	BlocksPerSM     uint32
	// SMs is how many SMs the kernel fills if Blocks is 0; see KernelPhase.
	SMs float64
	// Objects that the kernel reads only, and those that it may write. Both nil: it may write
	// all that are allocated.
	Reads, Writes []string
	// Access says how the kernel works through objects; those that are left out it goes through once.
	Access map[string]Access `json:",omitempty"`
	// Stoppable: the kernel can end before it is done, and then runs again from its beginning.
	Stoppable bool `json:",omitempty"`
	// Endless: the kernel does its work again and again, until it is stopped or its process ends. S and Access are of one round.
	Endless bool `json:",omitempty"`
	// Pressure is how much the kernel disturbs others in the device's caches and memory: 1 is what pagedos does
	// (benchmarks/pilot). Sensitivity is by what part of its length a pressure of 1 makes the kernel longer.
	Pressure, Sensitivity float64 `json:",omitempty"`
	// Ranks that send a message, and that it goes to; nil: all.
	From, To []int `json:",omitempty"`
}

// Steps are what a rank of the job does, one after another: those of its steps file, or else the phases of
// the profile. f is the job's footprint. Jobs without ranks have rank 0 only. The phases are: host, allocation of all memory, copy in,
// kernels, copy out, host, release of the memory, and host.
func (p Profile) Steps(f mixes.Footprint, rank int) []Step {
	if p.Listed != nil {
		return p.Listed.of(rank)
	}
	const object = "memory"
	steps := append(make([]Step, 0, 8+len(p.KernelPhases)),
		Step{Kind: Host, S: p.HostBeforeS},
		Step{Kind: Allocate, Object: object, Bytes: f.Bytes, Binds: true},
		Step{Kind: CopyIn, Object: object, Bytes: p.CopyInBytes, S: p.CopyInS})
	if len(p.KernelPhases) == 0 {
		steps = append(steps, Step{Kind: Kernel, S: p.KernelS, Blocks: f.Blocks, ThreadsPerBlock: f.ThreadsPerBlock})
	}
	for _, k := range p.KernelPhases {
		steps = append(steps, Step{Kind: Kernel, S: k.S, SMs: k.SMs})
	}
	return append(steps,
		Step{Kind: CopyOut, Object: object, Bytes: p.CopyOutBytes, S: p.CopyOutS},
		Step{Kind: Host, S: p.HostHeldS},
		Step{Kind: Free, Object: object},
		Step{Kind: Host, S: p.HostAfterS})
}

// StepsError is a steps file that cannot be read, or that a job with its ranks cannot do.
type StepsError struct {
	Job int // the first of which that is so
	err error
}

func (e *StepsError) Error() string { return e.err.Error() }

func (e *StepsError) Unwrap() error { return e.err }

// WithSteps returns s with the steps files that jobs name. The error of a file that cannot be read, or that does not go with
// a job, is a *StepsError.
func (s Set) WithSteps(ctx context.Context, jobs []mixes.Job) (Set, error) {
	all := s.With(Set{})
	for i := range jobs {
		j := &jobs[i]
		if j.Steps == "" {
			continue
		}
		if l, known := all.steps[j.Steps]; known {
			if err := l.check(j); err != nil {
				return Set{}, &StepsError{i, err}
			}
			continue
		}
		text, err := userfile.Read(ctx, j.Steps, maxFileBytes)
		if err != nil {
			path := j.Steps
			if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
				path, err = failed.Path, failed.Err
			}
			return Set{}, &StepsError{i, fmt.Errorf("the steps of job %s: %s: %w", j.Name, path, err)}
		}
		if all.steps[j.Steps], err = readSteps(j.Steps, text); err != nil {
			return Set{}, err
		}
		if err := all.steps[j.Steps].check(j); err != nil {
			return Set{}, &StepsError{i, err}
		}
	}
	return all, nil
}

// Limits of a steps file. They keep sums of sizes within an int64.
const (
	maxSteps = 100_000
	maxTimes = 1000
	// maxContention is more than any kernel's pressure or sensitivity.
	maxContention = 1000
	maxStepBytes  = 1 << 46
)

// row is a line of a steps file.
type row struct {
	number int
	line   line
	keys   []string
	err    error // the line is not a step
}

// readSteps reads a steps file: one JSON object in each line. Errors name file and line.
func readSteps(file string, text []byte) (*Listing, error) {
	var rows []row
	number := 0
	for text := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		l, keys, err := parse(text)
		rows = append(rows, row{number, l, keys, err})
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf(`%s:1: no steps: write one JSON object in each line, such as {"step": "host", "seconds": 1}`, file)
	}
	out := &Listing{}
	readers := rankReaders(rows)
	repeats := 0
	for i := range rows {
		r := &rows[i]
		err := r.err
		repeats += max(1, r.line.Times) - 1
		switch {
		case i+repeats >= maxSteps:
			err = fmt.Errorf("more than %d steps: leave some out", maxSteps)
		case (i+repeats)*len(readers) >= maxAllSteps:
			err = fmt.Errorf("more than %d steps of all ranks that the file names: leave some out", maxAllSteps)
		case err == nil:
			err = r.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, r.number, err)
		}
		for rank, to := range readers {
			if to.err == nil && r.line.Rank.has(rank) {
				to.take(file, r)
			}
		}
		for _, of := range []*ranks{r.line.Rank, r.line.From, r.line.To} {
			if highest := slices.Max(append(of.named(), 0)); highest > out.highest {
				out.highest, out.at = highest, fmt.Sprintf("%s:%d", file, r.number)
			}
		}
	}
	out.others = *readers[others]
	delete(readers, others)
	out.named = readers
	if len(readers) == 0 && out.others.err != nil {
		return nil, out.others.err
	}
	return out, nil
}

type stepReader struct {
	steps   []Step
	objects map[string]Step // allocated so far and not freed
	err     error           // of the first line that the rank cannot do
}

// line is a step as it is written.
type line struct {
	Step        string            `json:"step"`
	Seconds     float64           `json:"seconds"`
	Object      string            `json:"object"`
	Bytes       amount            `json:"bytes"`
	Managed     bool              `json:"managed"`
	MovableS    float64           `json:"movable_seconds"`
	Binds       bool              `json:"binds"`
	Direction   string            `json:"direction"`
	Blocks      uint64            `json:"blocks"`
	Threads     uint32            `json:"threads"`
	BlocksPerSM uint32            `json:"blocks_per_sm"`
	Reads       []string          `json:"reads"`
	Writes      []string          `json:"writes"`
	Access      map[string]Access `json:"access"`
	Stoppable   bool              `json:"stoppable"`
	Pressure    float64           `json:"pressure"`
	Sensitivity float64           `json:"sensitivity"`
	Endless     bool              `json:"endless"`
	Times       int               `json:"times"`
	Scale       Scale             `json:"scale"`
	Rank        *ranks            `json:"rank"`
	From        *ranks            `json:"from"`
	To          *ranks            `json:"to"`
}

// amount is written as a number of bytes, or as text such as "2GiB".
type amount int64

func (a *amount) UnmarshalJSON(text []byte) error {
	n, err := size.Parse(strings.Trim(string(text), `"`))
	*a = amount(n)
	return err
}

// stepKeys are the keys that each step must have, and those that it may have.
var stepKeys = map[string]struct{ must, may []string }{
	"host":     {[]string{"seconds"}, []string{"scale", "rank"}},
	"allocate": {[]string{"object", "bytes"}, []string{"managed", "binds", "movable_seconds", "rank"}},
	"copy":     {[]string{"object", "direction"}, []string{"bytes", "seconds", "rank"}},
	"kernel":   {[]string{"blocks", "threads", "seconds"}, []string{"blocks_per_sm", "reads", "writes", "access", "pressure", "sensitivity", "stoppable", "endless", "times", "scale", "rank"}},
	"free":     {[]string{"object"}, []string{"rank"}},
	"barrier":  {nil, nil},
	"message":  {[]string{"from", "to", "bytes"}, nil},
}

// check checks what does not depend on the lines above.
func (r *row) check() error {
	l, keys := &r.line, r.keys
	of, known := stepKeys[l.Step]
	if !known {
		return fmt.Errorf("unknown step %q: use one of %s", l.Step, strings.Join(slices.Sorted(maps.Keys(stepKeys)), ", "))
	}
	for _, key := range of.must {
		if !slices.Contains(keys, key) {
			return fmt.Errorf("%s without %s: add it", l.Step, key)
		}
	}
	for _, key := range keys {
		if key != "step" && key != "rank" && !slices.Contains(of.must, key) && !slices.Contains(of.may, key) {
			return fmt.Errorf("key %q of a step %s: use %s", key, l.Step, cmp.Or(strings.Join(slices.Concat(of.must, of.may), ", "), "step alone"))
		}
	}
	if !(l.Seconds >= 0 && l.Seconds <= csvfile.MaxSeconds) {
		return fmt.Errorf("seconds is %g: write a number from 0 to %s", l.Seconds, csvfile.Plain(csvfile.MaxSeconds))
	}
	switch some := l.Rank != nil && !l.Rank.all; {
	case some && l.Step == "barrier":
		return errors.New("a barrier of some ranks, which waits for all of them: remove rank")
	case some && l.Step == "message":
		return errors.New("rank of a message: its ranks are in from and to: remove rank")
	case l.Step == "message" && len(l.From.list) == 1 && slices.Equal(l.From.list, l.To.list):
		return fmt.Errorf("a message of rank %d to itself: write another rank", l.From.list[0])
	}
	if slices.Contains(keys, "bytes") && (l.Bytes == 0 || l.Bytes > maxStepBytes) {
		return fmt.Errorf("bytes is %d: write a number from 1 to %d", l.Bytes, int64(maxStepBytes))
	}
	if slices.Contains(keys, "times") && (l.Times < 1 || l.Times > maxTimes) {
		return fmt.Errorf("times is %d: write a number from 1 to %d", l.Times, maxTimes)
	}
	for _, n := range []struct {
		key   string
		value float64
	}{{"pressure", l.Pressure}, {"sensitivity", l.Sensitivity}, {"movable_seconds", l.MovableS}} {
		if !(n.value >= 0 && n.value <= maxContention) {
			return fmt.Errorf("%s is %g: write a number from 0 to %d", n.key, n.value, maxContention)
		}
	}
	if l.Endless && (l.Times > 1 || l.Seconds == 0) {
		return fmt.Errorf("an endless kernel of %g seconds, %d times: write the seconds of one round, and leave times out", l.Seconds, max(1, l.Times))
	}
	return nil
}

// take appends the step of a line, as often as the line says.
func (r *stepReader) take(file string, of *row) {
	s, err := r.step(&of.line, of.keys)
	if err != nil {
		r.err = fmt.Errorf("%s:%d: %w", file, of.number, err)
	}
	r.steps = append(r.steps, slices.Repeat([]Step{s}, max(1, of.line.Times))...)
}

func (r *stepReader) step(l *line, keys []string) (_ Step, err error) {
	s := Step{S: l.Seconds, Scale: l.Scale, Object: l.Object, Bytes: int64(l.Bytes)}
	object, allocated := r.objects[l.Object]
	if slices.Contains(keys, "object") && l.Step != "allocate" && !allocated {
		return Step{}, fmt.Errorf("object %q is not allocated: allocate it in a line above", l.Object)
	}
	switch l.Step {
	case "allocate":
		if l.Object == "" {
			return Step{}, errors.New(`object is "": give it a name`)
		}
		if allocated {
			return Step{}, fmt.Errorf("object %q is allocated already: use another name, or free it first", l.Object)
		}
		s.Kind, s.Managed, s.Binds, s.MovableS = Allocate, l.Managed, l.Managed || l.Binds, l.MovableS
		r.objects[l.Object] = s
	case "copy":
		err = copied(&s, l, object)
	case "kernel":
		s.Kind, s.Blocks, s.ThreadsPerBlock, s.BlocksPerSM = Kernel, l.Blocks, l.Threads, l.BlocksPerSM
		s.Reads, s.Writes, s.Access, s.Stoppable, s.Endless = l.Reads, l.Writes, l.Access, l.Stoppable, l.Endless
		s.Pressure, s.Sensitivity = l.Pressure, l.Sensitivity
		err = r.kernel(s)
	case "free":
		s.Kind = Free
		delete(r.objects, l.Object)
	case "barrier":
		s.Kind = Barrier
	case "message":
		s.Kind, s.From, s.To = Message, l.From.named(), l.To.named()
	}
	return s, err
}

// parse reads a line and its keys. encoding/json alone would take a key twice, and in any case.
func parse(row []byte) (l line, keys []string, err error) {
	var values map[string]json.RawMessage
	err = strictjson.Plainly(json.Unmarshal(row, &values))
	if err == nil && values == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return l, nil, fmt.Errorf(`not a JSON object: %w; write a step such as {"step": "host", "seconds": 1}`, err)
	}
	d := json.NewDecoder(bytes.NewReader(row))
	_, _ = d.Token() // {
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		name, _ := key.(string)
		if slices.Contains(keys, name) {
			return l, nil, fmt.Errorf("key %q twice: remove one", name)
		}
		if string(value) == "null" {
			return l, nil, fmt.Errorf("key %q is null: remove it, or give it a value", name)
		}
		keys = append(keys, name)
	}
	if err := json.Unmarshal(row, &l); err != nil {
		return l, nil, strictjson.Plainly(err)
	}
	return l, keys, nil
}

func copied(s *Step, l *line, object Step) error {
	switch l.Direction {
	case "in":
		s.Kind = CopyIn
	case "out":
		s.Kind = CopyOut
	default:
		return fmt.Errorf("direction is %q: write in, which is to the device, or out", l.Direction)
	}
	if object.Managed {
		return fmt.Errorf("object %q is managed memory, which moves by itself: remove the copy", l.Object)
	}
	if s.Bytes == 0 {
		s.Bytes = object.Bytes
	}
	if s.Bytes > object.Bytes {
		return fmt.Errorf("a copy of %d bytes, but object %q has %d: copy fewer", s.Bytes, l.Object, object.Bytes)
	}
	return nil
}

// Limits of CUDA's grids and blocks.
const (
	maxBlocks          = 1 << 62
	maxThreadsPerBlock = 1024
)

func (r *stepReader) kernel(s Step) error {
	if s.S == 0 || s.Blocks == 0 || s.Blocks > maxBlocks || s.ThreadsPerBlock == 0 || s.ThreadsPerBlock > maxThreadsPerBlock {
		return fmt.Errorf("a kernel of %d blocks of %d threads for %g seconds: each must be more than 0, and threads %d at most",
			s.Blocks, s.ThreadsPerBlock, s.S, maxThreadsPerBlock)
	}
	for _, name := range slices.Concat(s.Reads, s.Writes) {
		if _, allocated := r.objects[name]; !allocated {
			return fmt.Errorf("object %q is not allocated: allocate it in a line above", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Access)) {
		if _, allocated := r.objects[name]; !allocated {
			return fmt.Errorf("access to object %q, which is not allocated: allocate it in a line above", name)
		}
		if !s.Uses(name) {
			return fmt.Errorf("access to object %q, which the kernel neither reads nor writes: add it to reads or writes", name)
		}
	}
	return nil
}
