package profiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
)

// format is that of a profile file. An empty field means unknown; durations must not be empty.
var format = csvfile.Format[Profile]{Record: "profile", Earlier: 17, // columns in files from before kernel phases
	Key: func(p Profile) string { return fmt.Sprintf("command %q", p.Command) }, Columns: []csvfile.Column[Profile]{
		csvfile.Text("job", func(p *Profile) *string { return &p.Job }, true),
		csvfile.Text("command", func(p *Profile) *string { return &p.Command }, true),
		csvfile.Duration("host_before_s", func(p *Profile) *float64 { return &p.HostBeforeS }),
		csvfile.Duration("host_held_s", func(p *Profile) *float64 { return &p.HostHeldS }),
		csvfile.Duration("host_after_s", func(p *Profile) *float64 { return &p.HostAfterS }),
		csvfile.Number("copy_in_bytes", func(p *Profile) *int64 { return &p.CopyInBytes }),
		csvfile.Duration("copy_in_s", func(p *Profile) *float64 { return &p.CopyInS }),
		csvfile.Duration("kernel_s", func(p *Profile) *float64 { return &p.KernelS }),
		csvfile.Number("copy_out_bytes", func(p *Profile) *int64 { return &p.CopyOutBytes }),
		csvfile.Duration("copy_out_s", func(p *Profile) *float64 { return &p.CopyOutS }),
		{Name: "kernels", Write: func(p Profile) string { return string(p.Kernels) }, Read: func(p *Profile, s string) error {
			p.Kernels = Source(s)
			if !slices.Contains([]Source{Traced, Estimated, Untraced}, p.Kernels) {
				return errors.New("want traced, estimated or untraced")
			}
			return nil
		}},
		csvfile.Number("memory_bytes", func(p *Profile) *int64 { return &p.Footprint.Bytes }),
		csvfile.Number("blocks", func(p *Profile) *uint64 { return &p.Footprint.Blocks }),
		within(csvfile.Number("threads_per_block", func(p *Profile) *uint32 { return &p.Footprint.ThreadsPerBlock }), 0, maxThreadsPerBlock,
			func(p *Profile) int { return int(p.Footprint.ThreadsPerBlock) }),
		csvfile.Text("gpu", func(p *Profile) *string { return &p.GPU }, false),
		csvfile.Text("driver", func(p *Profile) *string { return &p.Driver }, false),
		{Name: "measured_at", Write: func(p Profile) string {
			if p.MeasuredAt.IsZero() {
				return ""
			}
			return p.MeasuredAt.Format(time.RFC3339)
		}, Read: func(p *Profile, s string) (err error) {
			if s == "" {
				return nil
			}
			if p.MeasuredAt, err = time.Parse(time.RFC3339, s); err != nil {
				return errors.New("want a time such as 2026-01-31T12:00:00Z, or nothing")
			}
			return nil
		}},
		{Name: "kernel_phases", Write: func(p Profile) string {
			var out []string
			for _, k := range p.KernelPhases {
				out = append(out, csvfile.Plain(k.SMs)+":"+csvfile.Plain(k.S))
			}
			return strings.Join(out, " ")
		}, Read: readPhases},
		within(csvfile.Number("rounds", func(p *Profile) *int { return &p.Rounds }), 0, mostRounds, func(p *Profile) int { return p.Rounds }),
	}}

func readPhases(p *Profile, s string) error {
	if n := len(strings.Fields(s)); n > classes {
		return fmt.Errorf("%d phases, want at most %d", n, classes)
	}
	sum := 0.0
	for word := range strings.FieldsSeq(s) {
		sms, seconds, _ := strings.Cut(word, ":")
		var k KernelPhase
		var err error
		if k.SMs, err = csvfile.NotNegative(sms, math.MaxFloat64); err == nil {
			k.S, err = csvfile.NotNegative(seconds, csvfile.MaxSeconds)
		}
		if err != nil {
			return errors.New("want SMS:SECONDS for each phase, such as 3.5:0.2 132:1.4")
		}
		p.KernelPhases = append(p.KernelPhases, k)
		sum += k.S
	}
	if s != "" && math.Abs(sum-p.KernelS) > 1e-6*p.KernelS {
		return fmt.Errorf("its seconds add up to %s, want kernel_s, which is %s", csvfile.Plain(sum), csvfile.Plain(p.KernelS))
	}
	return nil
}

// mostRounds limits the number of rounds, because a simulated node plays them one by one.
const mostRounds = 100

// within limits what a column of whole numbers may say.
func within(c csvfile.Column[Profile], least, most int, value func(*Profile) int) csvfile.Column[Profile] {
	read := c.Read
	c.Read = func(p *Profile, s string) error {
		if err := read(p, s); err != nil || s != "" && (value(p) < least || value(p) > most) {
			return fmt.Errorf("want a whole number from %d to %d, or nothing", least, most)
		}
		return nil
	}
	return c
}

// Writer writes a profile file. Reading it again gives the same profiles.
type Writer = csvfile.Writer[Profile]

func NewWriter(w io.Writer) *Writer { return format.NewWriter(w) }

// maxFileBytes bounds a profile file. A line has about 120 bytes.
const maxFileBytes = 16 << 20

// Load reads a profile file.
func Load(ctx context.Context, path string) (Set, error) {
	text, err := userfile.Read(ctx, path, maxFileBytes)
	if err != nil {
		return Set{}, fmt.Errorf("read profiles: %w", err)
	}
	return Read(path, bytes.NewReader(text))
}

// Read reads a profile file. Errors name file and the line.
func Read(file string, r io.Reader) (Set, error) {
	all, err := format.Read(file, r)
	if err != nil {
		return Set{}, err
	}
	set := Set{byCommand: make(map[string]Profile, len(all))}
	for _, p := range all {
		set.byCommand[p.Command] = p
	}
	return set, nil
}
