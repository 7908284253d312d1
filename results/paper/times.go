package paper

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/caserun/caserun/userfile/csvfile"
)

// Time is how long the kernels of a program took, in one repetition.
type Time struct {
	Program    string
	Size       string // names a system of the paper
	Repetition string
	Build      string // builtStops, or builtPlain
	Seconds    float64
}

const (
	builtStops = "pilot"
	builtPlain = "pilot-plain"
)

// stopOverhead is the metric of times: with stop points over without.
const stopOverhead = "stop_overhead"

// times is the format of the files that benchmarks/pilot.sh writes.
var times = csvfile.Format[Time]{Record: "time",
	Key: func(t Time) string {
		return fmt.Sprintf("the time of %s, %s, repetition %s, build %s", t.Program, t.Size, t.Repetition, t.Build)
	},
	Columns: []csvfile.Column[Time]{
		csvfile.Text("program", func(t *Time) *string { return &t.Program }, true),
		csvfile.Text("size", func(t *Time) *string { return &t.Size }, true),
		csvfile.Text("rep", func(t *Time) *string { return &t.Repetition }, true),
		{Name: "build", Read: func(t *Time, text string) error {
			if t.Build = text; text != builtStops && text != builtPlain {
				return fmt.Errorf("want %s or %s", builtStops, builtPlain)
			}
			return nil
		}},
		{Name: "kernels_s", Read: func(t *Time, text string) (err error) {
			if t.Seconds, err = csvfile.NotNegative(text, csvfile.MaxSeconds); err != nil || t.Seconds == 0 {
				return errors.New("want seconds, more than 0")
			}
			return nil
		}},
	}}

// ReadTimes reads a file of times, whose name is for errors.
func ReadTimes(file string, text []byte) ([]Time, error) {
	return times.Read(file, bytes.NewReader(text))
}

// stopOverhead divides the times of a program with stop points by those without, repetition by repetition.
func (a *arms) stopOverhead(program string) (out samples, err error) {
	for _, stops := range a.node.Times {
		plain := stops
		plain.Build = builtPlain
		at := slices.IndexFunc(a.node.Times, func(t Time) bool {
			t.Seconds = plain.Seconds
			return t == plain
		})
		if stops.Program == program && stops.Build == builtStops && at >= 0 {
			out.add(stops.Seconds / a.node.Times[at].Seconds)
		}
	}
	if len(out.values) == 0 {
		return out, fmt.Errorf("%s has no repetition of %s with and without stop points", a.node.Name, program)
	}
	return out, nil
}
