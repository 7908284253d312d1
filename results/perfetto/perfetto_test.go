package perfetto_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/perfetto"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers"
)

// shown is a trace as a viewer has it: by process and track.
type shown struct {
	processes []string
	tracks    map[string][]string // "process / track": its slices, instants or values, as text
	slices    map[string][]drawn
	arrows    map[uint64][]string // the slices that a flow connects
	units     map[string]string   // of counters
}

type drawn struct {
	name     string
	from, to int64 // ns
	args     map[string]any
}

// decode reads a trace by Perfetto's schema, and fails where the trace is not as the schema and
// the rules of TrackEvents say: fields that the schema does not have, ends without a begin, slices
// that overlap, times that go backwards on a track, tracks and texts that nobody described.
func decode(t *testing.T, trace []byte, origin int64) shown {
	t.Helper()
	text, err := os.ReadFile("testdata/schema.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal(text, file); err != nil {
		t.Fatal(err)
	}
	schema, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(schema.Messages().ByName("Trace"))
	if err := proto.Unmarshal(trace, m); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, m)

	type described struct {
		process, name string
		counter       bool
		last          int64
		open          *drawn
	}
	out := shown{tracks: map[string][]string{}, slices: map[string][]drawn{}, arrows: map[uint64][]string{}, units: map[string]string{}}
	tracks := map[uint64]*described{}
	interned := map[string]map[uint64]string{}
	packets := list(m, "packet")
	for i, p := range packets {
		if number(p, "trusted_packet_sequence_id") == 0 {
			t.Fatalf("packet %d has no sequence, so that its interned texts have no place", i)
		}
		if flags := number(p, "sequence_flags"); (i == 0) != (flags == 1) || i > 0 && flags != 2 {
			t.Fatalf("packet %d has flags %d", i, flags)
		}
		if d := child(p, "interned_data"); d != nil {
			d.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				kind := string(f.Name())
				if interned[kind] == nil {
					interned[kind] = map[uint64]string{}
				}
				for _, entry := range list(d, kind) {
					iid := number(entry, "iid")
					if _, again := interned[kind][iid]; again || iid == 0 {
						t.Fatalf("packet %d interns %s %d again", i, kind, iid)
					}
					interned[kind][iid] = entry.Get(entry.Descriptor().Fields().ByNumber(2)).String()
					if b := entry.Get(entry.Descriptor().Fields().ByNumber(2)); kind == "debug_annotation_string_values" {
						interned[kind][iid] = string(b.Bytes())
					}
				}
				return true
			})
		}
		lookUp := func(kind string, iid uint64) string {
			s, found := interned[kind][iid]
			if !found {
				t.Fatalf("packet %d refers to %s %d, which no packet before it has", i, kind, iid)
			}
			return s
		}
		if d := child(p, "track_descriptor"); d != nil {
			uuid, name := number(d, "uuid"), str(d, "name")
			if tracks[uuid] != nil {
				t.Fatalf("packet %d describes track %d again", i, uuid)
			}
			own := &described{name: name, counter: child(d, "counter") != nil, last: -1}
			tracks[uuid] = own
			switch process := child(d, "process"); {
			case uuid == 0:
			case process != nil:
				own.process = str(process, "process_name")
				out.processes = append(out.processes, own.process)
			default:
				parent := tracks[number(d, "parent_uuid")]
				if parent == nil || parent.process == "" || name == "" {
					t.Fatalf("packet %d: track %q has no process, or no name", i, name)
				}
				own.process = parent.process
				if _, again := out.tracks[own.process+" / "+name]; again {
					t.Fatalf("packet %d: two tracks of %s are called %q, which viewers draw as one", i, own.process, name)
				}
				out.tracks[own.process+" / "+name] = nil
				if c := child(d, "counter"); c != nil {
					known := map[protoreflect.EnumNumber]string{0: str(c, "unit_name"), 2: "count", 3: "bytes"}
					out.units[name] = known[c.Get(c.Descriptor().Fields().ByName("unit")).Enum()]
				}
			}
		}
		e := child(p, "track_event")
		if e == nil {
			continue
		}
		on := tracks[number(e, "track_uuid")]
		if on == nil || on.name == on.process {
			t.Fatalf("packet %d is on track %d, which is not described, or is a process", i, number(e, "track_uuid"))
		}
		place := on.process + " / " + on.name
		at := int64(number(p, "timestamp")) - origin
		if at < on.last && on.last != -1 {
			t.Fatalf("packet %d: %s goes back from %d to %d ns", i, place, on.last, at)
		}
		on.last = at
		name := ""
		if iid := number(e, "name_iid"); iid != 0 {
			name = lookUp("event_names", iid)
		}
		args := map[string]any{}
		for _, a := range list(e, "debug_annotations") {
			key := lookUp("debug_annotation_names", number(a, "name_iid"))
			a.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
				switch f.Name() {
				case "name_iid":
				case "string_value_iid":
					args[key] = lookUp("debug_annotation_string_values", v.Uint())
				default:
					args[key] = v.Interface()
				}
				return true
			})
		}
		kind := e.Get(e.Descriptor().Fields().ByName("type")).Enum()
		if on.counter != (kind == 4) {
			t.Fatalf("packet %d: an event of type %d on %s", i, kind, place)
		}
		flows := func(field string) {
			l := e.Get(e.Descriptor().Fields().ByName(protoreflect.Name(field))).List()
			for k := range l.Len() {
				id := l.Get(k).Uint()
				out.arrows[id] = append(out.arrows[id], place+": "+name)
			}
		}
		flows("flow_ids")
		flows("terminating_flow_ids")
		switch kind {
		case 1:
			if on.open != nil || name == "" {
				t.Fatalf("packet %d: %q begins on %s in %v", i, name, place, on.open)
			}
			on.open = &drawn{name: name, from: at, args: args}
		case 2:
			if on.open == nil {
				t.Fatalf("packet %d: an end without a begin on %s", i, place)
			}
			on.open.to = at
			out.slices[place] = append(out.slices[place], *on.open)
			out.tracks[place] = append(out.tracks[place], fmt.Sprintf("%s %v-%v", on.open.name, float64(on.open.from)/1e9, float64(at)/1e9))
			on.open = nil
		case 3:
			out.tracks[place] = append(out.tracks[place], fmt.Sprintf("%s at %v", name, float64(at)/1e9))
		case 4:
			value := e.Get(e.Descriptor().Fields().ByName("double_counter_value")).Float()
			if e.Has(e.Descriptor().Fields().ByName("counter_value")) {
				value = float64(e.Get(e.Descriptor().Fields().ByName("counter_value")).Int())
			}
			out.tracks[place] = append(out.tracks[place], fmt.Sprintf("%v: %v", float64(at)/1e9, value))
		}
	}
	for _, on := range tracks {
		if on.open != nil {
			t.Errorf("%s on %s does not end", on.open.name, on.name)
		}
	}
	return out
}

func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if u := m.GetUnknown(); len(u) > 0 {
		t.Fatalf("%s has fields that the schema does not have: %x", m.Descriptor().Name(), u)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

func list(m protoreflect.Message, field string) (out []protoreflect.Message) {
	l := m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).List()
	for i := range l.Len() {
		out = append(out, l.Get(i).Message())
	}
	return out
}

func child(m protoreflect.Message, field string) protoreflect.Message {
	f := m.Descriptor().Fields().ByName(protoreflect.Name(field))
	if !m.Has(f) {
		return nil
	}
	return m.Get(f).Message()
}

func number(m protoreflect.Message, field string) uint64 {
	switch v := m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).Interface().(type) {
	case uint64:
		return v
	case uint32:
		return uint64(v)
	}
	return 0
}

func str(m protoreflect.Message, field string) string {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).String()
}

func newStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// record stores a run on one device and returns its number.
func record(t *testing.T, s *store.Store, run results.Run, fill func(*store.Writer)) int64 {
	t.Helper()
	ctx := context.Background()
	id, err := s.BeginRun(ctx, run, []results.Device{{Index: 0, UUID: "GPU-0", Name: "H200"}})
	if err != nil {
		t.Fatal(err)
	}
	w := s.Writer(id)
	fill(w)
	if err := w.Finish(ctx, run); err != nil {
		t.Fatal(err)
	}
	return id
}

func trace(t *testing.T, s *store.Store, f store.Filter) []byte {
	t.Helper()
	runs, err := s.Runs(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := perfetto.Write(context.Background(), s, &out, runs, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Waits, grants, refusals, overlaps, gaps of samples, and what never ended all have their place.
func TestTimelineOfARun(t *testing.T) {
	s := newStore(t)
	record(t, s, results.Run{Mix: "m", Scheduler: "case-alg3", Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 3, Traced: true,
		Metrics: results.Metrics{MakespanS: new(9.0)}}, func(w *store.Writer) {
		w.Job(results.Job{Index: 0, Name: "a", Command: "a 1", Outcome: new(results.OK), ArrivalS: new(0.0), StartS: new(0.5), EndS: new(8.0), Device: new(0)})
		w.Job(results.Job{Index: 1, Name: "b", Command: "b \xff", Outcome: new(results.Refused), ArrivalS: new(0.0), StartS: new(0.0), EndS: new(9.0)})
		w.Job(results.Job{Index: 2, Name: "c", Command: "c", ArrivalS: new(0.0), StartS: new(1.0), Device: new(0)}) // it never ended
		w.Task(results.Task{Job: 0, Seq: 0, Bytes: 1 << 33, Blocks: 80, ThreadsPerBlock: 256, SubmitS: 1, GrantS: new(2.0), ReleaseS: new(4.0), Device: new(0), Passed: 3})
		w.Task(results.Task{Job: 0, Seq: 1, SubmitS: 3, GrantS: new(3.0), ReleaseS: new(5.0), Device: new(0)}) // beside task 0
		w.Task(results.Task{Job: 0, Seq: 2, SubmitS: 5, GrantS: new(6.0), ReleaseS: new(7.0), Device: new(0)})
		w.Task(results.Task{Job: 1, Seq: 0, SubmitS: 1, Refusal: new("too large")})
		w.Task(results.Task{Job: 1, Seq: 1, SubmitS: 4, Refusal: new("too large")})
		w.Rank(results.Rank{Job: 0, Rank: 0, PID: new(77), StartS: new(0.5), EndS: new(8.0), Outcome: new(results.OK)})
		w.Rank(results.Rank{Job: 0, Rank: 1, StartS: new(0.5), EndS: new(7.0), Outcome: new(results.Cancelled), Signal: new("SIGTERM")})
		w.Swap(results.Swap{Job: 0, Task: 1, Direction: schedulers.Out, Action: "yield", Outcome: schedulers.Done, StartS: 3.25, EndS: 4, Bytes: 1 << 32,
			DrainS: 0.125, CopyS: 0.5, BookkeepingS: 0.0625, ResidentBytes: new(int64(0)), FixedBytes: new(int64(0)), LostS: new(0.75), ForJob: new(2)})
		w.Swap(results.Swap{Job: 0, Task: 0, Direction: schedulers.Out, Action: "evict", Outcome: schedulers.Unable, Why: "exported", StartS: 3.5, EndS: 4})
		w.Swap(results.Swap{Job: 0, Task: 1, Direction: schedulers.In, Outcome: schedulers.Done, StartS: 4.25, EndS: 4.5, Bytes: 1 << 32, CopyS: 0.25})
		w.Event(results.Event{AtS: 1.5, Kind: results.EventRefused, Job: new(1), Detail: "too large"})
		w.Event(results.Event{AtS: 4.25, Kind: results.EventRefused, Job: new(1), Detail: "too large"})
		w.Event(results.Event{AtS: 3, Kind: results.EventTrace, Detail: "lost"}) // it became known late
		for _, x := range []results.Segment{
			{Series: results.SeriesGPU, FirstS: -2.5, LastS: 0.9, Samples: 9, Value: new(0.25)},
			{Series: results.SeriesGPU, FirstS: 1, LastS: 2, Samples: 9, Value: new(0.5)},
			{Series: results.SeriesGPU, FirstS: 4, LastS: 5, Samples: 9}, // unsupported for a while
			{Series: results.SeriesGPU, FirstS: 5, LastS: 9, Samples: 9, Value: new(1.0)},
			{Series: results.SeriesEnergy, FirstS: 0, LastS: 0, Samples: 1, Value: new(1e9 + 0.5)}, // a counter is read rarely
			{Series: results.SeriesEnergy, FirstS: 6, LastS: 6, Samples: 1, Value: new(1e9 + 741.5)},
			{Series: results.SeriesEnergy, FirstS: 9, LastS: 9, Samples: 1, Value: new(1e9 + 1041.5)},
			{Series: results.SeriesMemory, FirstS: 0, LastS: 9, Samples: 9, Value: new(float64(1<<33 + 1))},
		} {
			w.Segment(x)
		}
		for _, k := range []results.Kernel{
			{Name: "k(int)", StartS: 2.1, EndS: 2.2, Stream: 7},
			{Name: "k(int)", StartS: 2.15, EndS: 2.3, Stream: 7}, // overlaps in its stream
			{Name: "l", StartS: 2.2, EndS: 2.2, Stream: 7},
			{Name: "k(int)", StartS: 2.0, EndS: 2.05, Stream: 7}, // out of order
			{Name: "k(int)", StartS: 2.1, EndS: 2.2, Stream: 13},
		} {
			k.Grid, k.Block, k.Registers, k.PID = "1,2,3", "32,1,1", 40, 4711
			w.Kernel(k)
		}
		w.Copy(results.Copy{PID: 4711, Stream: 7, Kind: "htod", Bytes: 1 << 32, StartS: 2.0, EndS: 2.1})
	})
	got := decode(t, trace(t, s, store.Filter{}), 4e9)
	want := map[string][]string{
		"run 1: m under case-alg3 on local / batch":  {"m under case-alg3 0-9"},
		"run 1: m under case-alg3 on local / events": {"refused at 1.5", "trace at 3", "refused at 4.25"},

		"run 1 GPU 0: H200 / utilization (NVML)":                 {"-2.5: 0.25", "1: 0.5", "2: 0.5", "5: 1", "9: 1"},
		"run 1 GPU 0: H200 / utilization (NVML): unknown":        {"unknown 2-4", "unknown 4-5"},
		"run 1 GPU 0: H200 / memory used":                        {"0: 8.589934593e+09", "9: 8.589934593e+09"},
		"run 1 GPU 0: H200 / power":                              {"0: 123.5", "6: 100", "9: 100"},
		"run 1 GPU 0: H200 / energy since the driver was loaded": {"0: 1.0000000005e+09", "6: 1.0000007415e+09", "9: 1.0000010415e+09"},
		"run 1 GPU 0: H200 / tasks and jobs that hold it":        {"0: 0", "1: 1", "2: 2", "3: 3", "4: 2", "5: 1", "6: 2", "7: 1", "9: 0"},
		"run 1 GPU 0: H200 / holds":                              {"job 2: c 1-9"},
		"run 1 GPU 0: H200 / holds (2)":                          {"job 0 task 0: a 2-4", "job 0 task 2: a 6-7"},
		"run 1 GPU 0: H200 / holds (3)":                          {"job 0 task 1: a 3-5"},

		"run 1 job 0: a / job":       {"waits to start 0-0.5", "a 0.5-8"},
		"run 1 job 0: a / tasks":     {"task 0 waits 1-2", "task 0 on GPU 0 2-4", "task 2 waits 5-6", "task 2 on GPU 0 6-7"},
		"run 1 job 0: a / tasks (2)": {"task 1 on GPU 0 3-5"},
		"run 1 job 0: a / ranks":     {"rank 0 0.5-8"},
		"run 1 job 0: a / ranks (2)": {"rank 1: cancelled 0.5-7"},
		"run 1 job 0: a / swaps":     {"out (yield) 3.25-4", "in 4.25-4.5"},
		"run 1 job 0: a / swaps (2)": {"out (evict): unable 3.5-4"},
		"run 1 job 1: b / job":       {"b: refused 0-9"},
		"run 1 job 1: b / tasks":     {"task 0 refused 1-1.5", "task 1 refused 4-4.25"},
		"run 1 job 2: c / job":       {"waits to start 0-1", "c 1-9"},

		"run 1 job 0: a / kernels, GPU 0, pid 4711, stream 7":     {"k(int) 2.1-2.2", "l 2.2-2.2"},
		"run 1 job 0: a / kernels, GPU 0, pid 4711, stream 7 (2)": {"k(int) 2.15-2.3"},
		"run 1 job 0: a / kernels, GPU 0, pid 4711, stream 7 (3)": {"k(int) 2-2.05"},
		"run 1 job 0: a / kernels, GPU 0, pid 4711, stream 13":    {"k(int) 2.1-2.2"},
		"run 1 job 0: a / copies, GPU 0, pid 4711, stream 7":      {"htod 2-2.1"},
	}
	if diff := cmp.Diff(want, got.tracks); diff != "" {
		t.Errorf("tracks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"utilization (NVML)": "fraction", "memory used": "bytes", "power": "W",
		"energy since the driver was loaded": "J", "tasks and jobs that hold it": "count"}, got.units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"run 1: m under case-alg3 on local", "run 1 GPU 0: H200", "run 1 job 0: a", "run 1 job 1: b", "run 1 job 2: c"}, got.processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[uint64][]string{
		1: {"run 1 job 0: a / tasks: task 0 waits", "run 1 GPU 0: H200 / holds (2): job 0 task 0: a"},
		2: {"run 1 job 0: a / tasks (2): task 1 on GPU 0", "run 1 GPU 0: H200 / holds (3): job 0 task 1: a"},
		3: {"run 1 job 0: a / tasks: task 2 waits", "run 1 GPU 0: H200 / holds (2): job 0 task 2: a"},
	}, got.arrows); diff != "" {
		t.Errorf("arrows (-want +got):\n%s", diff)
	}
	for _, c := range []struct {
		place string
		n     int
		args  map[string]any
	}{
		{"run 1 job 0: a / tasks", 1, map[string]any{"job_index": int64(0), "task_seq": int64(0), "bytes": int64(1 << 33), "heap_bytes": int64(0), "grown_bytes": int64(0),
			"blocks": int64(80), "threads_per_block": int64(256), "device_index": int64(0), "passed": int64(3)}},
		{"run 1 job 0: a / kernels, GPU 0, pid 4711, stream 7", 0, map[string]any{"grid": "1,2,3", "block": "32,1,1", "registers": int64(40),
			"static_shared_bytes": int64(0), "dynamic_shared_bytes": int64(0)}},
		{"run 1 job 0: a / copies, GPU 0, pid 4711, stream 7", 0, map[string]any{"bytes": int64(1 << 32)}},
		{"run 1 job 0: a / swaps", 0, map[string]any{"task_seq": int64(1), "device_index": int64(0), "outcome": "done", "bytes": int64(1 << 32), "drain_s": 0.125,
			"copy_s": 0.5, "bookkeeping_s": 0.0625, "lost_s": 0.75, "resident_bytes": int64(0), "fixed_bytes": int64(0), "for_job_index": int64(2)}},
		{"run 1 job 0: a / swaps (2)", 0, map[string]any{"task_seq": int64(0), "device_index": int64(0), "outcome": "unable", "bytes": int64(0), "drain_s": 0.0,
			"copy_s": 0.0, "bookkeeping_s": 0.0, "why": "exported"}},
		{"run 1 job 2: c / job", 1, map[string]any{"command": "c", "outcome": "not known", "device_index": int64(0)}},
		{"run 1 job 1: b / job", 0, map[string]any{"command": "b \uFFFD", "outcome": "refused", "turnaround_s": 9.0}},
	} {
		if diff := cmp.Diff(c.args, got.slices[c.place][c.n].args); diff != "" {
			t.Errorf("arguments of %s, slice %d (-want +got):\n%s", c.place, c.n, diff)
		}
	}
}

// Every group of tracks of a simulated run says so, also beside a run that was measured.
func TestSimulatedRunsSaySo(t *testing.T) {
	s := newStore(t)
	fill := func(w *store.Writer) {
		w.Job(results.Job{Name: "a", Outcome: new(results.OK), StartS: new(0.0), EndS: new(1.0), Device: new(0)})
		w.Kernel(results.Kernel{Name: "k", Task: new(0), EndS: 1, BusyS: 0.25})
	}
	record(t, s, results.Run{Mix: "m", Scheduler: "sa", Node: "sim:1xV100", Mode: results.Simulated, Status: results.Complete, Jobs: 1}, fill)
	record(t, s, results.Run{Mix: "m", Scheduler: "sa", Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 1}, fill)
	got := decode(t, trace(t, s, store.Filter{}), 1e9)
	if diff := cmp.Diff([]string{"SIMULATED run 1: m under sa on sim:1xV100", "SIMULATED run 1 GPU 0: H200", "SIMULATED run 1 job 0: a",
		"run 2: m under sa on local", "run 2 GPU 0: H200", "run 2 job 0: a"}, got.processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	kernel := got.slices["SIMULATED run 1 job 0: a / kernels, GPU 0"]
	if len(kernel) != 1 || kernel[0].args["busy_s"] != 0.25 || kernel[0].args["grid"] != nil {
		t.Errorf("the kernels of the task are %v", kernel)
	}
}

// stopping fails when it has got some bytes.
type stopping struct{ left int }

func (w *stopping) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

var errFull = errors.New("full")

// All kernels of a long run come, each with its nanoseconds, and an error of the file ends the
// export.
func TestManyKernels(t *testing.T) {
	s := newStore(t)
	const n = 30_000
	record(t, s, results.Run{Mix: "m", Scheduler: "sa", Node: "local", Mode: results.Live, Status: results.Complete, Jobs: 1, Traced: true}, func(w *store.Writer) {
		w.Job(results.Job{Name: "a", Outcome: new(results.OK), StartS: new(0.0), EndS: new(1.0), Device: new(0)})
		for i := range n {
			start := float64(3_000*i+i%7) / 1e9
			w.Kernel(results.Kernel{Name: fmt.Sprint("k", i%3), Grid: "1,1,1", Block: fmt.Sprintf("%d,1,1", i%5), PID: 1, Stream: 7, StartS: start, EndS: start + 2e-6})
		}
	})
	var calls []int64
	runs, err := s.Runs(context.Background(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := perfetto.Write(context.Background(), s, &out, runs, func(written int64) { calls = append(calls, written) }); err != nil {
		t.Fatal(err)
	}
	if len(calls) == 0 || !slices.IsSorted(calls) || calls[len(calls)-1] > n {
		t.Errorf("progress was told %v", calls)
	}
	kernels := decode(t, out.Bytes(), 1e9).slices["run 1 job 0: a / kernels, GPU 0, pid 1, stream 7"]
	if len(kernels) != n {
		t.Fatalf("%d kernels in one lane, want %d", len(kernels), n)
	}
	for i, k := range kernels {
		if from := int64(3_000*i + i%7); k.from != from || k.to != from+2_000 || k.name != fmt.Sprint("k", i%3) || k.args["block"] != fmt.Sprintf("%d,1,1", i%5) {
			t.Fatalf("kernel %d is %+v", i, k)
		}
	}
	// Most of a kernel is numbers: texts are written once.
	if each := out.Len() / n; each > 90 {
		t.Errorf("a kernel takes %d bytes", each)
	}
	if err := perfetto.Write(context.Background(), s, &stopping{left: out.Len() / 2}, runs, nil); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}
