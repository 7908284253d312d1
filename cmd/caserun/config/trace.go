package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes/traces"
)

// Trace says how a trace is read, by flags and the preset that one of them names.
type Trace struct {
	traces.Options
	preset string
	unit   size.Amount
}

// TracePresets are the names that --preset takes.
func TracePresets() []string { return slices.Sorted(maps.Keys(traces.Presets)) }

// AddTraceFlags adds the flags of a trace. Settle must follow when they are parsed.
func AddTraceFlags(f *pflag.FlagSet) *Trace {
	t := &Trace{Options: traces.Default(), unit: size.AmountOf(1 << 20)}
	f.StringVar(&t.preset, "preset", "", "columns and units of a published trace: `NAME` is "+strings.Join(TracePresets(), ", "))
	f.StringVar(&t.Submit, "submit", t.Submit, "`COLUMN` with the time at which a job was submitted, in seconds")
	f.StringVar(&t.Duration, "duration", t.Duration, "`COLUMN` with how long it ran, in seconds")
	f.StringVar(&t.Start, "start", "", "`COLUMN` with its start in seconds, with --end in place of --duration")
	f.StringVar(&t.End, "end", "", "`COLUMN` with its end in seconds")
	f.StringVar(&t.Name, "name", "", "`COLUMN` with its name; default: the line")
	f.StringVar(&t.GPUs, "gpus", "", "`COLUMN` with its number of GPUs; default: one")
	f.StringVar(&t.Share, "share", "", "`COLUMN` with its share of a GPU")
	f.Float64Var(&t.Whole, "whole", t.Whole, "`NUMBER` in that column that is a whole GPU")
	f.StringVar(&t.Memory, "memory", "", "`COLUMN` with its memory of each GPU")
	f.TextVar(&t.unit, "memory-unit", t.unit, "unit of that column, a `SIZE`")
	f.StringVar(&t.CPUs, "cpus", "", "`COLUMN` with its CPUs, which the mix keeps as variable "+traces.CPUs)
	f.Float64Var(&t.CPUUnit, "cpu-unit", t.CPUUnit, "`NUMBER` in that column that is one CPU")
	f.DurationVar(&t.From, "from", 0, "only rows submitted at this `TIME` of the trace or later; default: from the first")
	f.DurationVar(&t.To, "to", 0, "only rows submitted before this `TIME` of the trace")
	f.Float64Var(&t.Speed, "speed", t.Speed, "`TIMES` faster than in the trace jobs arrive and run")
	f.IntVar(&t.Limit, "limit", 0, "the first `N` of these jobs only")
	f.IntVar(&t.NodeGPUs, "node-gpus", t.NodeGPUs, "`N` GPUs that the node has")
	f.Float64Var(&t.NodeCPUs, "node-cpus", 0, "`N` CPUs that the node has; 0: any number")
	f.BoolVar(&t.LeaveOut, "leave-out", false, "leave out the rows that the node cannot serve")
	return t
}

// columns are the flags that name columns, with the fields that they set.
func columns(o *traces.Options) map[string]*string {
	return map[string]*string{"name": &o.Name, "submit": &o.Submit, "duration": &o.Duration, "start": &o.Start, "end": &o.End,
		"gpus": &o.GPUs, "share": &o.Share, "memory": &o.Memory, "cpus": &o.CPUs}
}

// Settle completes the options by the preset, over which flags go that were given.
func (t *Trace) Settle(f *pflag.FlagSet) error {
	t.MemoryUnit = t.unit.Bytes
	preset, known := traces.Presets[t.preset]
	switch {
	case known:
		of := columns(&preset)
		for flag, at := range columns(&t.Options) {
			if !f.Changed(flag) {
				*at = *of[flag]
			}
		}
		if !f.Changed("whole") {
			t.Whole = preset.Whole
		}
		if !f.Changed("cpu-unit") {
			t.CPUUnit = preset.CPUUnit
		}
	case t.preset != "":
		return fmt.Errorf("--preset %s: want %s", t.preset, strings.Join(TracePresets(), ", "))
	case f.Changed("start") && !f.Changed("duration"):
		t.Duration = ""
	}
	return t.Check()
}
