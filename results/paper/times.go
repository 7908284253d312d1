package paper

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// ReadTimes reads a file of times as benchmarks/pilot.sh writes it. It may name the programs and sizes for which the paper has slowdowns.
// The file's name is for errors.
func (p *Paper) ReadTimes(file string, text []byte) ([]Time, error) {
	var programs, sizes []string
	for _, v := range p.values {
		if p.Metrics[v.Metric].Of == stopOverhead && p.Workloads[v.Workload].Take == "" {
			programs, sizes = append(programs, v.Workload), append(sizes, v.System)
		}
	}
	format := csvfile.Format[Time]{Record: "time",
		Key: func(t Time) string {
			return fmt.Sprintf("the time of %s, %s, repetition %s, build %s", t.Program, t.Size, t.Repetition, t.Build)
		},
		Columns: []csvfile.Column[Time]{
			oneOf("program", func(t *Time) *string { return &t.Program }, programs),
			oneOf("size", func(t *Time) *string { return &t.Size }, sizes),
			csvfile.Text("rep", func(t *Time) *string { return &t.Repetition }, true),
			oneOf("build", func(t *Time) *string { return &t.Build }, []string{builtStops, builtPlain}),
			{Name: "kernels_s", Read: func(t *Time, text string) (err error) {
				if t.Seconds, err = csvfile.NotNegative(text, csvfile.MaxSeconds); err != nil || t.Seconds == 0 {
					return errors.New("want seconds, more than 0")
				}
				return nil
			}},
		}}
	return format.Read(file, bytes.NewReader(text))
}

// oneOf is a column with one of some words.
func oneOf(name string, field func(*Time) *string, words []string) csvfile.Column[Time] {
	return csvfile.Column[Time]{Name: name, Read: func(t *Time, text string) error {
		if *field(t) = text; slices.Contains(words, text) {
			return nil
		}
		var known []string
		for _, w := range words {
			if !slices.Contains(known, w) {
				known = append(known, w)
			}
		}
		return fmt.Errorf("want one of %s", strings.Join(known, ", "))
	}}
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
