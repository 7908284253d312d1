package results

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
)

// Field is one column of a record: its name in the store, in CSV and in JSON, which ends with its unit (_s, _bytes, _hz,
// _per_s, _j), and a pointer to its value.
type Field struct {
	Name string
	At   any
}

// Value is the field's value, without pointers: nil if it is unknown.
func (f Field) Value() any {
	switch at := f.At.(type) {
	case Count:
		if !at.Known {
			return nil
		}
		return *at.N
	case encoding.TextMarshaler:
		text, _ := at.MarshalText() // those of a number or a probe have no errors
		return string(text)
	}
	v := reflect.ValueOf(f.At)
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if value := v.Interface(); value != Optional("") && value != Chosen("") {
		return value
	}
	return nil
}

// Fields are a record's columns in the order of the store, in which checksums are made: new ones come last.
type Fields []Field

// Pick returns fields by name, in the order of the names. A name that the record lacks is a fault of the caller, and panics.
func (f Fields) Pick(names ...string) Fields {
	out := make(Fields, len(names))
	for i, name := range names {
		out[i] = f[slices.IndexFunc(f, func(x Field) bool { return x.Name == name })]
	}
	return out
}

var _ json.Marshaler = Fields(nil)

// MarshalJSON makes an object whose keys are in the order of the fields.
func (f Fields) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	for i, x := range f {
		value, err := json.Marshal(x.Value())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Name, err)
		}
		fmt.Fprintf(&out, `%c"%s":%s`, "{,"[min(i, 1)], x.Name, value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// With appends a field that the store does not have as a column.
func (f Fields) With(name string, value any) Fields { return append(f, Field{name, value}) }

// Optional is text that is unknown where it is empty.
type Optional string

// Chosen is a name that a user chose, if any.
type Chosen string

// Decimal is a number that may be too large for SQLite's integers and for JSON's.
type Decimal uint64

var _ encoding.TextMarshaler = Decimal(0)

// MarshalText gives its digits.
func (d Decimal) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(d), 10), nil }

// Count is a number that is not known while its run is under way.
type Count struct {
	N     *int
	Known bool
}

// Fields are the columns of a run but its ID.
func (r *Run) Fields() Fields {
	m, p := &r.Metrics, &r.Provenance
	known := r.Status != Running
	return slices.Concat(Fields{
		{"mix", (*Chosen)(&r.Mix)}, {"mix_source", &r.MixSource}, {"scheduler", &r.Scheduler}, {"parameters", &r.Parameters}, {"node", &r.Node},
		{"mode", &r.Mode}, {"suite", &r.Suite}, {"repetition", &r.Repetition}, {"seed", (*Decimal)(&r.Seed)}, {"workers", &r.Workers},
		{"started_at", &r.StartedAt}, {"status", &r.Status}, {"jobs", &r.Jobs},
	}, m.columns(endings, known), m.Fields(), r.Sampler.Fields(), Fields{
		{"version", &p.Version}, {"revision", &p.Revision}, {"configuration", &p.Configuration}, {"host", &p.Host}, {"pid", &p.PID},
		{"kernel", &p.Kernel}, {"cpu", &p.CPU}, {"cores", &p.Cores}, {"memory_bytes", &p.MemoryBytes},
		{"driver", &p.Driver}, {"cuda", &p.CUDA}, {"binaries", &p.Binaries},
		{"traced", &r.Traced},
	}, r.Tracer.Fields(), Fields{
		{"sweep_id", &r.Sweep}, {"warmup", &r.Warmup}, {"tag", (*Chosen)(&r.Tag)},
	}, m.columns(unstarted, known), Fields{{"probe", &r.Probe}}, m.EnergyFields(), Fields{{"energy_source", &m.Energy.Source}}, m.SwappingFields(), Fields{{"surroundings", &p.Surroundings}, {"doubts", &r.Doubts}}, m.DeadlineFields(),
		Fields{{"arm", (*Chosen)(&r.Arm)}, {"excluded", &r.Excluded}, {"remark", (*Chosen)(&r.Remark)}}, Fields{{"arrivals", &r.Arrivals}}, m.OpenLoadFields(), m.LostFields())
}

// Metrics that are columns of runs, in the order of the store.
var (
	endings   = named("ok", "oom", "crashed", "cancelled")
	unstarted = named("not-started")
	figures   = named("makespan", "throughput", "attempted-throughput", "turnaround", "turnaround-p95", "wait",
		"utilization", "peak-utilization", "kernel-utilization")
	energies  = named("energy", "idle-energy", "energy-per-job")
	deadlines = named("deadlines-met")
	openLoads = named("steady-rate", "backlog", "largest-backlog", "backlog-growth")
	swappings = named("swaps", "swaps-in-vain", "swapped-out", "swapped-in", "swap-drain", "swap-copy", "swap-bookkeeping",
		"swap-host-peak", "host-mapped-slowdown")
	losses = named("swap-lost")
)

func named(names ...string) (out []Metric) {
	for _, name := range names {
		out = append(out, MetricNamed(name))
	}
	return out
}

func (m *Metrics) columns(of []Metric, known bool) Fields {
	out := make(Fields, len(of))
	for i, x := range of {
		out[i] = Field{x.Column, x.at(m)}
		if n, is := out[i].At.(*int); is {
			out[i].At = Count{n, known}
		}
	}
	return out
}

// Fields are the times, the rates and the utilization.
func (m *Metrics) Fields() Fields { return m.columns(figures, true) }

// EnergyFields are the columns of the energy in joules.
func (m *Metrics) EnergyFields() Fields { return m.columns(energies, true) }

// SwappingFields are the columns of swapping.
func (m *Metrics) SwappingFields() Fields { return m.columns(swappings, true) }

// LostFields are the columns of what was lost when kernels were stopped.
func (m *Metrics) LostFields() Fields { return m.columns(losses, true) }

// DeadlineFields are the columns of deadlines.
func (m *Metrics) DeadlineFields() Fields { return m.columns(deadlines, true) }

// OpenLoadFields are the columns of open load.
func (m *Metrics) OpenLoadFields() Fields { return m.columns(openLoads, true) }

// Fields are the columns of the sampler.
func (s *Sampler) Fields() Fields {
	return Fields{
		{"sampler_period_s", &s.PeriodS}, {"sampler_samples", &s.Samples}, {"sampler_missed_deadlines", &s.MissedDeadlines},
		{"sampler_longest_gap_s", &s.LongestGapS}, {"sampler_cpu_s", &s.CPUS}, {"sampler_errors", &s.Errors}, {"sampler_first_error", &s.FirstError},
	}
}

// Fields are the columns of the tracer.
func (t *Tracer) Fields() Fields {
	return Fields{
		{"tracer_processes", &t.Processes}, {"tracer_kernels", &t.Kernels}, {"tracer_copies", &t.Copies},
		{"tracer_lost_records", &t.Lost}, {"tracer_cut_processes", &t.Cut}, {"tracer_untraced_jobs", &t.Untraced},
	}
}

// Fields are the columns of a device, its key first.
func (d *Device) Fields() Fields {
	return Fields{
		{"device_index", &d.Index},
		{"uuid", &d.UUID}, {"name", &d.Name}, {"memory_bytes", &d.MemoryBytes}, {"used_at_start_bytes", &d.UsedAtStartBytes},
		{"capacity_bytes", &d.CapacityBytes}, {"context_bytes", &d.ContextBytes},
		{"sms", &d.SMs}, {"warps_per_sm", &d.WarpsPerSM}, {"blocks_per_sm", &d.BlocksPerSM}, {"sm_clock_start_hz", &d.SMClockStartHz}, {"sm_clock_end_hz", &d.SMClockEndHz},
		{"throttle_start", &d.ThrottleStart}, {"throttle_end", &d.ThrottleEnd}, {"refresh_s", &d.RefreshS}, {"peak_used_bytes", &d.PeakUsedBytes},
		{"utilization_mean", &d.UtilizationMean}, {"utilization_peak", &d.UtilizationPeak}, {"resident_mean", &d.ResidentMean},
		{"energy_j", &d.EnergyJ}, {"energy_idle_j", &d.IdleEnergyJ}, {"energy_source", &d.EnergySource},
		{"node_index", &d.Node},
		{"mig_gpu_uuid", &d.GPU}, {"mig_profile", &d.Profile},
	}
}

// Fields are the columns of a job, its key first.
func (j *Job) Fields() Fields {
	return Fields{
		{"job_index", &j.Index},
		{"name", &j.Name}, {"command", &j.Command}, {"class", &j.Class}, {"footprint_bytes", &j.FootprintBytes}, {"device_index", &j.Device},
		{"start_s", &j.StartS}, {"end_s", &j.EndS}, {"wait_s", &j.WaitS}, {"user_s", &j.UserS}, {"sys_s", &j.SysS}, {"max_rss_bytes", &j.MaxRSSBytes},
		{"outcome", &j.Outcome}, {"exit_status", &j.ExitStatus}, {"signal", &j.Signal}, {"detail", &j.Detail}, {"stderr_tail", &j.StderrTail},
		{"arrival_s", &j.ArrivalS}, {"used_bytes", &j.UsedBytes}, {"energy_estimate_j", &j.EnergyEstimateJ},
		{"deadline_s", &j.DeadlineS},
		{"devices", &j.Devices},
		{"user_name", &j.User}, {"credits", &j.Credits},
		{"unaccounted_bytes", &j.UnaccountedBytes},
		{"restarts", &j.Restarts},
		{"lost_s", &j.LostS},
	}
}

// Fields are the columns of a rank, its key first.
func (r *Rank) Fields() Fields {
	return Fields{
		{"job_index", &r.Job}, {"rank", &r.Rank},
		{"pid", &r.PID}, {"start_s", &r.StartS}, {"end_s", &r.EndS}, {"user_s", &r.UserS}, {"sys_s", &r.SysS}, {"max_rss_bytes", &r.MaxRSSBytes},
		{"outcome", &r.Outcome}, {"exit_status", &r.ExitStatus}, {"signal", &r.Signal}, {"detail", &r.Detail},
		{"portion", &r.Portion}, {"device_index", &r.Device},
	}
}

// Fields are the columns of a task, its key first.
func (t *Task) Fields() Fields {
	return Fields{
		{"job_index", &t.Job}, {"task_seq", &t.Seq},
		{"bytes", &t.Bytes}, {"heap_bytes", &t.HeapBytes}, {"grown_bytes", &t.GrownBytes}, {"blocks", &t.Blocks}, {"threads_per_block", &t.ThreadsPerBlock},
		{"device_index", &t.Device}, {"submit_s", &t.SubmitS}, {"grant_s", &t.GrantS}, {"release_s", &t.ReleaseS}, {"refusal", &t.Refusal}, {"passed", &t.Passed},
		{"blocks_per_sm", &t.BlocksPerSM}, {"managed", &t.Managed}, {"pinned_device_index", &t.PinnedDevice},
	}
}

// Fields are the columns of a swap, its job first.
func (s *Swap) Fields() Fields {
	return Fields{
		{"job_index", &s.Job},
		{"task_seq", &s.Task}, {"device_index", &s.Device}, {"direction", &s.Direction}, {"action", (*Optional)(&s.Action)},
		{"outcome", &s.Outcome}, {"why", (*Optional)(&s.Why)}, {"start_s", &s.StartS}, {"end_s", &s.EndS}, {"bytes", &s.Bytes},
		{"drain_s", &s.DrainS}, {"copy_s", &s.CopyS}, {"bookkeeping_s", &s.BookkeepingS}, {"resident_bytes", &s.ResidentBytes}, {"fixed_bytes", &s.FixedBytes},
		{"for_job_index", &s.ForJob}, {"for_task_seq", &s.ForTask}, {"lost_s", &s.LostS},
	}
}
