package store

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
)

// layout binds a record type to its table. fields returns pointers to a record's fields in the
// order of columns. database/sql takes these pointers as arguments (nil becomes NULL) and scans
// into them, so that writing and reading cannot disagree.
type layout[T any] struct {
	table   string
	keys    []string // of the row within its run
	columns []string // the others
	fields  func(*T) (keys, values []any)
}

// listed is the layout of a record whose columns package results lists, first its keys.
func listed[T any](table string, keys int, list func(*T) results.Fields) layout[T] {
	var names []string
	for _, f := range list(new(T)) {
		names = append(names, f.Name)
	}
	return layout[T]{table: table, keys: names[:keys], columns: names[keys:], fields: func(record *T) ([]any, []any) {
		at := make([]any, 0, len(names))
		for _, f := range list(record) {
			at = append(at, stored(f.At))
		}
		return at[:keys:keys], at[keys:]
	}}
}

// stored is a field as it is written and read.
func stored(field any) any {
	switch f := field.(type) {
	case *results.Chosen:
		return name{(*string)(f)}
	case *results.Optional:
		return text{(*string)(f)}
	case *results.Decimal:
		return (*decimal)(f)
	case *results.Probe:
		return probe{f}
	case results.Count:
		return count{f.N, f.Known}
	case **time.Time:
		return instant{f}
	}
	return field
}

var (
	runs    = listed("run", 0, (*results.Run).Fields)
	devices = listed("device", 1, (*results.Device).Fields)
	jobs    = listed("job", 1, (*results.Job).Fields)
	ranks   = listed("rank", 2, (*results.Rank).Fields)
	tasks   = listed("task", 2, (*results.Task).Fields)
)

// launch is a kernel with its ordinal among the kernels of its job. The Writer counts the
// ordinal, because two launches may be equal in every other field.
type launch struct {
	results.Kernel
	ordinal int
	shape   int
}

// shape is what many launches of a run have in common. It is stored once.
type shape struct {
	results.Kernel // only the fields that shapes has as columns
	id             int
}

var shapes = layout[shape]{
	table:   "_kernel_shape",
	keys:    []string{"shape_id"},
	columns: []string{"name", "grid", "block", "registers", "static_shared_bytes", "dynamic_shared_bytes"},
	fields: func(k *shape) (keys, values []any) {
		one := k.Grid != ""
		return []any{&k.id}, []any{&k.Name, &k.Grid, &k.Block,
			count{&k.Registers, one}, count{&k.StaticSharedBytes, one}, count{&k.DynamicSharedBytes, one}}
	},
}

var launches = layout[launch]{
	table:   "_launch",
	keys:    []string{"job_index", "ordinal"},
	columns: []string{"shape_id", "task_seq", "device_index", "start_s", "end_s", "busy_s", "pid", "stream"},
	fields: func(k *launch) (keys, values []any) {
		one := k.Grid != ""
		var busy any = &k.BusyS
		if k.BusyS == k.EndS-k.StartS {
			busy = nil // the view computes it
		}
		return []any{&k.Job, &k.ordinal}, []any{
			&k.shape, &k.Task, &k.Device, &k.StartS, &k.EndS, busy, count{&k.PID, one}, count{&k.Stream, one},
		}
	},
}

// kernels reads the view that joins shapes and launches.
var kernels = layout[launch]{
	table: "kernel",
	keys:  []string{"job_index", "ordinal"},
	columns: []string{"task_seq", "device_index", "name", "grid", "block", "start_s", "end_s", "busy_s",
		"registers", "static_shared_bytes", "dynamic_shared_bytes", "pid", "stream"},
	fields: func(k *launch) (keys, values []any) {
		return []any{&k.Job, &k.ordinal}, []any{
			&k.Task, &k.Device, &k.Name, &k.Grid, &k.Block, &k.StartS, &k.EndS, &k.BusyS,
			count{n: &k.Registers}, count{n: &k.StaticSharedBytes}, count{n: &k.DynamicSharedBytes},
			count{n: &k.PID}, count{n: &k.Stream},
		}
	},
}

// transfer is a copy with its ordinal among the copies of its job.
type transfer struct {
	results.Copy
	ordinal int
}

var copies = layout[transfer]{
	table:   "copy",
	keys:    []string{"job_index", "ordinal"},
	columns: []string{"device_index", "kind", "bytes", "start_s", "end_s", "pid", "stream"},
	fields: func(c *transfer) (keys, values []any) {
		return []any{&c.Job, &c.ordinal}, []any{&c.Device, &c.Kind, &c.Bytes, &c.StartS, &c.EndS, &c.PID, &c.Stream}
	},
}

// move is a swap with its ordinal among the swaps of its job.
type move struct {
	results.Swap
	ordinal int
}

var swaps = listed("swap", 2, func(m *move) results.Fields {
	return slices.Insert(m.Fields(), 1, results.Field{Name: "ordinal", At: &m.ordinal})
})

var predictions = layout[results.Prediction]{
	table:   "prediction",
	keys:    []string{"job_index"},
	columns: []string{"before_s", "held_s", "after_s", "bytes", "kernels", "sms", "source"},
	fields: func(p *results.Prediction) (keys, values []any) {
		return []any{&p.Job}, []any{&p.BeforeS, &p.HeldS, &p.AfterS, &p.Bytes, &p.Kernels, &p.SMs, &p.Source}
	},
}

var segments = layout[results.Segment]{
	table:   "_segment",
	keys:    []string{"device_index", "series", "first_s"},
	columns: []string{"last_s", "samples", "value"},
	fields: func(s *results.Segment) (keys, values []any) {
		return []any{&s.Device, &s.Series, &s.FirstS}, []any{&s.LastS, &s.Samples, &s.Value}
	},
}

// occurrence is an event with its number within the run.
type occurrence struct {
	results.Event
	seq int
}

var events = layout[occurrence]{
	table:   "event",
	keys:    []string{"event_seq"},
	columns: []string{"at_s", "kind", "job_index", "device_index", "detail"},
	fields: func(e *occurrence) (keys, values []any) {
		return []any{&e.seq}, []any{&e.AtS, &e.Kind, &e.Job, &e.Device, &e.Detail}
	},
}

// decimal stores an unsigned integer as text, because SQLite's are signed.
type decimal uint64

func (d *decimal) Value() (driver.Value, error) { return strconv.FormatUint(uint64(*d), 10), nil }

func (d *decimal) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("want decimal text, got %T", v)
	}
	n, err := strconv.ParseUint(s, 10, 64)
	*d = decimal(n)
	return err
}

// instant stores a time as RFC 3339 text in UTC.
type instant struct{ at **time.Time }

func (i instant) Value() (driver.Value, error) {
	if *i.at == nil {
		return nil, nil
	}
	return (*i.at).UTC().Format(time.RFC3339Nano), nil
}

func (i instant) Scan(v any) error {
	if v == nil {
		*i.at = nil
		return nil
	}
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("want RFC 3339 text, got %T", v)
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	*i.at = &t
	return err
}

// text stores NULL for an empty string.
type text struct{ s *string }

func (t text) Value() (driver.Value, error) {
	if *t.s == "" {
		return nil, nil
	}
	return *t.s, nil
}

func (t text) Scan(v any) error {
	*t.s, _ = v.(string)
	return nil
}

// name is text that a user chose. It is read in Unicode NFC, in which users' names are compared: earlier versions stored
// what they were given.
type name text

func (n name) Value() (driver.Value, error) { return text(n).Value() }

func (n name) Scan(v any) error {
	s, _ := v.(string)
	*n.s = input.Name(s)
	return nil
}

// probe stores a probe's name.
type probe struct{ p *results.Probe }

func (p probe) Value() (driver.Value, error) { return p.p.String(), nil }

func (p probe) Scan(v any) error {
	name, _ := v.(string)
	return p.p.UnmarshalText([]byte(name))
}

// count stores NULL while the number is unknown.
type count struct {
	n     *int
	known bool
}

func (c count) Value() (driver.Value, error) {
	if !c.known {
		return nil, nil
	}
	return int64(*c.n), nil
}

func (c count) Scan(v any) error {
	n, _ := v.(int64)
	*c.n = int(n)
	return nil
}
