package mixes

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/size"
)

// Profile is what a mix says that a job does when it runs alone on one device. Simulated nodes
// replay it. A live run does not read it, except for the footprint that it implies.
type Profile struct {
	Before time.Duration // on the host, until the job first uses the device
	After  time.Duration // on the host, when the job has given the device back
	Rounds int           // how often the phases are repeated with an equal share each; 0: once
	Phases []Phase
	// Exponential draws how long the job takes from an exponential distribution, whose mean is what the phases say. All
	// of its times are longer or shorter by one factor.
	Exponential bool `json:",omitempty"`
}

// Phase is a part of the time in which a job holds device memory.
type Phase struct {
	Host    time.Duration // on the host
	Kernel  time.Duration // in kernels
	CopyIn  int64         // bytes, to the device
	CopyOut int64         // bytes, from the device
	Kernels Footprint     // of the kernels; Bytes is the memory held
}

// exponential is the value of the key distribution.
const exponential = "exponential"

// Limits that catch typing errors. A simulated node would spend for ever on longer phases.
const (
	maxPhase  = 1000 * time.Hour
	maxRounds = 100
	// MaxPhases is the most phases of a profile.
	MaxPhases = 100
)

func (p *Profile) clone() *Profile {
	if p == nil {
		return nil
	}
	copied := *p
	copied.Phases = slices.Clone(p.Phases)
	return &copied
}

func (p *Profile) equal(q *Profile) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.Before == q.Before && p.After == q.After && p.Rounds == q.Rounds && p.Exponential == q.Exponential && slices.Equal(p.Phases, q.Phases)
}

// footprint is the most memory of a phase, and the phase with the most warps.
func (p *Profile) footprint() Footprint {
	var out Footprint
	most := uint64(0)
	for _, phase := range p.Phases {
		k := phase.Kernels
		out.Bytes = max(out.Bytes, k.Bytes)
		if warps := k.Blocks * uint64((k.ThreadsPerBlock+31)/32); warps > most {
			most, out.Blocks, out.ThreadsPerBlock = warps, k.Blocks, k.ThreadsPerBlock
		}
	}
	return out
}

// stated is the footprint that a mix states, with what is missing in it from the profile.
func stated(f Footprint, p *Profile) Footprint {
	if p == nil {
		return f
	}
	implied := p.footprint()
	if f.Bytes == 0 {
		f.Bytes = implied.Bytes
	}
	if f.Blocks == 0 && f.ThreadsPerBlock == 0 {
		f.Blocks, f.ThreadsPerBlock = implied.Blocks, implied.ThreadsPerBlock
	}
	return f
}

var (
	phaseKeys   = []string{"host", "kernel", "copy_in", "copy_out", "memory", "blocks", "threads"}
	profileKeys = slices.Concat([]string{"before", "after", "rounds", "distribution", "phases"}, phaseKeys)
)

// profile reads the key profile: one phase with before, after and rounds, or those and phases.
func (r *yamlReader) profile(f field) *Profile {
	fields := r.fields(f.value, "a profile", profileKeys)
	if fields == nil {
		return nil
	}
	p := &Profile{Before: r.phaseTime(fields, "before"), After: r.phaseTime(fields, "after")}
	if f, found := fields["rounds"]; found {
		p.Rounds = int(r.number(f.value, "rounds", maxRounds))
	}
	if f, found := fields["distribution"]; found {
		s, ok := r.value(f.value, "distribution", "write "+exponential)
		if p.Exponential = s == exponential; ok && !p.Exponential {
			r.fail(f.value.GetToken(), "write "+exponential+", or remove the key: then the job takes as long as the profile says", "bad distribution %q", s)
		}
	}
	list, several := fields["phases"]
	if !several {
		p.Phases = []Phase{r.phase(fields)}
	} else if phases, ok := list.value.(*ast.SequenceNode); !ok || len(phases.Values) == 0 || len(phases.Values) > MaxPhases {
		r.fail(list.key, fmt.Sprintf("give it a list of 1 to %d mappings with %s", MaxPhases, strings.Join(phaseKeys, ", ")), "phases is not a list of phases")
		return p
	} else {
		for _, key := range phaseKeys {
			if f, found := fields[key]; found {
				r.fail(f.key, "write it in the phases", "%s beside phases", key)
			}
		}
		for _, n := range phases.Values {
			p.Phases = append(p.Phases, r.phase(r.fields(n, "a phase", phaseKeys)))
		}
	}
	busy := p.Before + p.After
	for _, phase := range p.Phases {
		busy += phase.Host + phase.Kernel
	}
	if busy == 0 && len(r.errs) == 0 {
		r.fail(f.key, "say how long the job is on the host or in kernels, such as host: 5s", "the profile takes no time")
	}
	return p
}

func (r *yamlReader) phase(fields map[string]field) Phase {
	p := Phase{Host: r.phaseTime(fields, "host"), Kernel: r.phaseTime(fields, "kernel")}
	for _, bytes := range []struct {
		key string
		to  *int64
	}{{"copy_in", &p.CopyIn}, {"copy_out", &p.CopyOut}, {"memory", &p.Kernels.Bytes}} {
		if f, found := fields[bytes.key]; found {
			*bytes.to = r.bytes(f.value, bytes.key)
		}
	}
	if f, found := fields["blocks"]; found {
		p.Kernels.Blocks = r.number(f.value, "blocks", 1<<62)
	}
	if f, found := fields["threads"]; found {
		p.Kernels.ThreadsPerBlock = uint32(r.number(f.value, "threads", maxThreadsPerBlock))
	}
	grid, grided := fields["blocks"]
	block, blocked := fields["threads"]
	switch {
	case grided && !blocked:
		r.fail(grid.key, "add threads:, the threads of a block", "blocks without threads")
	case blocked && !grided:
		r.fail(block.key, "add blocks:, the blocks of the grid", "threads without blocks")
	}
	return p
}

func (r *yamlReader) phaseTime(fields map[string]field, key string) time.Duration {
	f, found := fields[key]
	if !found {
		return 0
	}
	s, ok := r.value(f.value, key, "write a time with its unit, such as 5s")
	if !ok {
		return 0
	}
	d, err := input.Duration(s)
	if err != nil || d < 0 || d > maxPhase {
		r.fail(f.value.GetToken(), "write a time with its unit up to 1000h, such as 5s or 250ms", "bad %s %q", key, s)
		return 0
	}
	return d
}

// profileText is a profile in the form that profile reads.
func profileText(p *Profile) string {
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(key, value string) {
		if b.Bytes()[b.Len()-1] != '{' {
			b.WriteString(", ")
		}
		b.WriteString(key + ": " + value)
	}
	putTime := func(key string, d time.Duration) {
		if d != 0 {
			put(key, d.String())
		}
	}
	putTime("before", p.Before)
	putTime("after", p.After)
	if p.Rounds != 0 {
		put("rounds", strconv.Itoa(p.Rounds))
	}
	if p.Exponential {
		put("distribution", exponential)
	}
	put("phases", "[")
	for i, phase := range p.Phases {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('{')
		putTime("host", phase.Host)
		putTime("kernel", phase.Kernel)
		for _, bytes := range []struct {
			key   string
			value int64
		}{{"copy_in", phase.CopyIn}, {"copy_out", phase.CopyOut}, {"memory", phase.Kernels.Bytes}} {
			if bytes.value != 0 {
				put(bytes.key, size.FormatChosen(bytes.value))
			}
		}
		if k := phase.Kernels; k.Blocks != 0 {
			put("blocks", strconv.FormatUint(k.Blocks, 10))
			put("threads", strconv.FormatUint(uint64(k.ThreadsPerBlock), 10))
		}
		b.WriteByte('}')
	}
	b.WriteString("]}")
	return b.String()
}
