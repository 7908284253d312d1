package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/userfile/network"
)

func ptr[T any](v T) *T { return &v }

func openTemp(t testing.TB, pragmas ...string) *Store {
	t.Helper()
	s, err := open(filepath.Join(t.TempDir(), "runs.db"), network.Of, pragmas...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fullRun has a value in every field of every record type.
func fullRun() (results.Run, []results.Device) {
	run := results.Run{
		Mix: "W7", MixSource: "catalog", Scheduler: "case-alg3", Parameters: "queue=fifo", Probe: results.Static, Node: "local",
		Mode: results.Live, Suite: "builtin", Repetition: 2, Seed: 1<<64 - 1, Workers: 6,
		StartedAt: ptr(time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)), Status: results.Complete, Jobs: 3,
		Metrics: results.Metrics{
			OK: 1, OOM: 1, Crashed: 2, MakespanS: ptr(10.0), ThroughputJobsPerS: ptr(0.1),
			AttemptedJobsPerS: ptr(0.3), TurnaroundMeanS: ptr(9.5), TurnaroundP95S: ptr(10.0),
			WaitMeanS: ptr(0.5), UtilizationMean: ptr(0.4), UtilizationPeak: ptr(1.0), KernelUtilizationMean: ptr(0.3),
			Energy: results.Energy{UsedJ: ptr(900.0), IdleJ: ptr(200.0), PerOK: ptr(900.0), Source: ptr(results.EnergyPower)},
			Swapping: results.Swapping{Swaps: ptr(int64(3)), InVain: ptr(int64(1)), OutBytes: ptr(int64(4 << 30)), InBytes: ptr(int64(8 << 30)),
				DrainS: ptr(0.5), CopyS: ptr(2.25), BookkeepingS: ptr(0.75), HostPeakBytes: ptr(int64(4 << 30)), HostMappedS: ptr(0.125), LostS: ptr(1.5)},
		},
		Traced: true,
		Doubts: "the harness stood still\nanother reason",
		Tracer: results.Tracer{Processes: ptr(int64(3)), Kernels: ptr(int64(2)), Copies: ptr(int64(2)), Lost: ptr(int64(5)),
			Cut: ptr(int64(1)), Untraced: ptr(int64(0))},
		Sampler: results.Sampler{
			PeriodS: ptr(0.001), Samples: ptr(int64(10000)), MissedDeadlines: ptr(int64(3)),
			LongestGapS: ptr(0.004), CPUS: ptr(0.09), Errors: ptr(int64(1)), FirstError: ptr("GPU is lost"),
		},
		Provenance: results.Provenance{
			Version: "0.1", Revision: "abc+dirty", Configuration: "{}", Host: "node1", Kernel: "6.1", CPU: "Xeon",
			Cores: 2, MemoryBytes: 1 << 34, Driver: ptr("580.1"), CUDA: ptr("13.0"), Binaries: `{"a":"00"}`, Surroundings: ptr(`{"cpus":2}`),
		},
	}
	var found []results.Device
	for i := range 2 {
		found = append(found, results.Device{
			Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: "NVIDIA H200", MemoryBytes: 150 << 30,
			UsedAtStartBytes: 1 << 20, CapacityBytes: 149 << 30, ContextBytes: 512 << 20, SMs: 132, WarpsPerSM: 64,
			BlocksPerSM: 32, SMClockStartHz: ptr(int64(1980e6)), SMClockEndHz: ptr(int64(1900e6)),
			ThrottleStart: ptr("idle"), ThrottleEnd: ptr("sw_power_cap"), RefreshS: ptr(0.2),
			PeakUsedBytes: ptr(int64(9 << 30)), UtilizationMean: ptr(0.4), UtilizationPeak: ptr(1.0), ResidentMean: ptr(0.3),
			EnergyJ: ptr(450.0), IdleEnergyJ: ptr(100.0), EnergySource: ptr(results.EnergyCounter),
		})
	}
	return run, found
}

type rows struct {
	Devices  []results.Device
	Jobs     []results.Job
	Ranks    []results.Rank
	Tasks    []results.Task
	Kernels  []results.Kernel
	Copies   []results.Copy
	Swaps    []results.Swap
	Segments []results.Segment
	Events   []results.Event
	Expected []results.Prediction
}

func fullRows(found []results.Device) rows {
	return rows{
		Devices: found,
		Jobs: []results.Job{
			{Index: 0, Name: "backprop", Command: "backprop 1", Class: "small", FootprintBytes: ptr(int64(5 << 30)),
				Device: ptr(1), UsedBytes: ptr(int64(77)), EnergyEstimateJ: ptr(350.5), ArrivalS: ptr(0.25), StartS: ptr(0.5), EndS: ptr(9.5), WaitS: ptr(0.5), UserS: ptr(8.0), SysS: ptr(1.0),
				MaxRSSBytes: ptr(int64(1 << 30)), Outcome: ptr(results.OK), ExitStatus: ptr(0), LostS: ptr(1.5)},
			{Index: 1, Name: "lud", Command: "lud -s 1", Class: "large", Outcome: ptr(results.OOM), EndS: ptr(10.0),
				Signal: ptr("SIGABRT"), Detail: "cudaMalloc of 9 GiB failed", StderrTail: "out of memory\n"},
			{Index: 2, Name: "waits", Command: "w"},
		},
		Ranks: []results.Rank{
			{Job: 0, Rank: 0, PID: ptr(77), StartS: ptr(0.5), EndS: ptr(9.5), UserS: ptr(8.0), SysS: ptr(1.0), MaxRSSBytes: ptr(int64(1 << 30)), Outcome: ptr(results.OK), ExitStatus: ptr(0)},
			{Job: 0, Rank: 1, StartS: ptr(0.5), EndS: ptr(9.0), Outcome: ptr(results.Crash), Signal: ptr("SIGABRT"), Detail: "ended by SIGABRT"},
		},
		Tasks: []results.Task{
			{Job: 0, Seq: 0, Bytes: 5 << 30, HeapBytes: 8 << 20, GrownBytes: 1, Blocks: 1 << 40, ThreadsPerBlock: 256,
				BlocksPerSM: ptr(uint32(8)), Managed: ptr(true), PinnedDevice: ptr(1), Device: ptr(1), SubmitS: 0.25, GrantS: ptr(0.5), ReleaseS: ptr(9.0), Passed: 2},
			{Job: 1, Seq: 0, SubmitS: 1, Managed: ptr(false), PinnedDevice: ptr(7), Refusal: ptr("too large")},
		},
		Kernels: []results.Kernel{
			oneLaunch(), oneLaunch(), // two launches that are alike in every field
			{Job: 0, Task: ptr(0), Device: 1, Name: "all kernels (simulated)", StartS: 1, EndS: 9, BusyS: 4},
		},
		Copies: []results.Copy{
			{Job: 0, PID: 77, Device: 1, Kind: "htod", Bytes: 5 << 30, Stream: 7, StartS: 0.5, EndS: 1},
			{Job: 0, PID: 77, Device: 1, Kind: "htod", Bytes: 5 << 30, Stream: 7, StartS: 0.5, EndS: 1},
		},
		Swaps: []results.Swap{
			{Job: 0, Task: 0, Device: 1, Direction: schedulers.Out, Action: "stop", Outcome: schedulers.Done, StartS: 2, EndS: 3.5, Bytes: 4 << 30,
				DrainS: 0.5, CopyS: 0.75, BookkeepingS: 0.25, ResidentBytes: ptr(int64(1 << 30)), FixedBytes: ptr(int64(0)), LostS: ptr(1.5), ForJob: ptr(1), ForTask: ptr(0)},
			{Job: 0, Task: 0, Device: 1, Direction: schedulers.In, Outcome: schedulers.Done, StartS: 4, EndS: 5, Bytes: 4 << 30, CopyS: 0.75, BookkeepingS: 0.25},
			{Job: 0, Task: 0, Device: 1, Direction: schedulers.In, Outcome: schedulers.Done, StartS: 4, EndS: 5, Bytes: 4 << 30, CopyS: 0.75, BookkeepingS: 0.25},
			{Job: 1, Task: 0, Device: 0, Direction: schedulers.Out, Action: "evict", Outcome: schedulers.Unable, Why: "it exports memory", StartS: 2, EndS: 2,
				ResidentBytes: ptr(int64(5)), FixedBytes: ptr(int64(5)), ForJob: ptr(2)},
		},
		Segments: []results.Segment{
			{Device: 0, Series: results.SeriesGPU, FirstS: -0.001, LastS: 4, Samples: 4000, Value: ptr(0.5)},
			{Device: 1, Series: results.SeriesGPU, FirstS: 0, LastS: 4, Samples: 4000},
		},
		Events: []results.Event{
			{AtS: 9, Kind: results.EventOOM, Job: ptr(1), Device: ptr(0), Detail: "9 GiB"},
			{AtS: 9, Kind: results.EventOOM, Job: ptr(1), Device: ptr(0), Detail: "9 GiB"},
		},
		Expected: []results.Prediction{
			{Job: 0, Expected: results.Expected{BeforeS: 0.25, HeldS: 8.5, AfterS: 0.75, Bytes: 5 << 30, Kernels: ptr(0.5), SMs: ptr(1.0), Source: "14 runs"}},
			{Job: 2, Expected: results.Expected{HeldS: 1, Source: "file"}},
		},
	}
}

func oneLaunch() results.Kernel {
	return results.Kernel{Job: 0, Device: 1, Name: "k(int)", Grid: "1,1,1", Block: "256,1,1", Registers: 32,
		StaticSharedBytes: 4096, DynamicSharedBytes: 1024, PID: 77, Stream: 7, StartS: 1, EndS: 2, BusyS: 1}
}

// record writes a whole run and returns its id.
func record(t testing.TB, s *Store, run results.Run, r rows) int64 {
	t.Helper()
	ctx := context.Background()
	id, err := s.BeginRun(ctx, run, r.Devices)
	if err != nil {
		t.Fatal(err)
	}
	w := s.Writer(id)
	for _, p := range r.Expected {
		w.Prediction(results.Prediction{Job: p.Job, Expected: results.Expected{Source: "to be replaced"}})
		w.Prediction(p)
	}
	for _, j := range r.Jobs {
		w.Job(results.Job{Index: j.Index, Name: "to be replaced"})
		w.Job(j)
	}
	for _, x := range r.Ranks {
		w.Rank(results.Rank{Job: x.Job, Rank: x.Rank})
		w.Rank(x)
	}
	for _, x := range r.Tasks {
		w.Task(x)
	}
	for _, k := range r.Kernels {
		w.Kernel(k)
	}
	for _, c := range r.Copies {
		w.Copy(c)
	}
	for _, x := range r.Swaps {
		w.Swap(x)
	}
	for _, x := range r.Segments {
		w.Segment(results.Segment{Device: x.Device, Series: x.Series, FirstS: x.FirstS, LastS: x.FirstS, Samples: 1})
		w.Segment(x)
	}
	for _, e := range r.Events {
		w.Event(e)
	}
	if err := w.Finish(ctx, run); err != nil {
		t.Fatal(err)
	}
	return id
}

func read(t testing.TB, s *Store, id int64) (results.Run, rows) {
	t.Helper()
	ctx := context.Background()
	var errs [11]error
	var run results.Run
	var r rows
	run, errs[0] = s.Run(ctx, id)
	r.Devices, errs[1] = s.Devices(ctx, id)
	r.Jobs, errs[2] = s.Jobs(ctx, id)
	r.Tasks, errs[3] = s.Tasks(ctx, id)
	r.Kernels, errs[4] = s.Kernels(ctx, id)
	r.Segments, errs[5] = s.Segments(ctx, id)
	r.Events, errs[6] = s.Events(ctx, id)
	errs[7] = s.EachCopy(ctx, id, func(c results.Copy) error { r.Copies = append(r.Copies, c); return nil })
	r.Swaps, errs[8] = s.Swaps(ctx, id)
	r.Ranks, errs[10] = s.Ranks(ctx, id)
	r.Expected, errs[9] = s.Predictions(ctx, id)
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return run, r
}

func TestEveryFieldSurvivesTheStore(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	want := fullRows(found)
	id := record(t, s, run, want)
	gotRun, got := read(t, s, id)
	run.ID = id
	if diff := cmp.Diff(run, gotRun); diff != "" {
		t.Errorf("run (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-written +read):\n%s", diff)
	}
}

func TestUnknownIsNullUntilTheRunEnds(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	run, found := fullRun()
	run.Metrics = results.Metrics{}
	if _, err := s.BeginRun(ctx, run, found); err != nil {
		t.Fatal(err)
	}
	var nulls int
	err := s.read.QueryRow(`SELECT (jobs_ok IS NULL) + (jobs_oom IS NULL) + (jobs_crashed IS NULL) +
		(jobs_cancelled IS NULL) + (makespan_s IS NULL) + (utilization_mean IS NULL) FROM run`).Scan(&nulls)
	if err != nil || nulls != 6 {
		t.Errorf("%d of 6 unknown figures of a running run are NULL (%v)", nulls, err)
	}
	got, err := s.Run(ctx, 1)
	if err != nil || got.Status != results.Running {
		t.Errorf("a run that began has status %q (%v)", got.Status, err)
	}
}

func TestFilters(t *testing.T) {
	s := openTemp(t)
	ctx := context.Background()
	for i := range 4 {
		run, found := fullRun()
		if i%2 == 1 {
			run.Mix, run.Mode, run.StartedAt, run.Node, run.Scheduler = "W1", results.Simulated, nil, "sim:4xV100", "sa"
			run.Doubts = ""
		}
		record(t, s, run, rows{Devices: found})
	}
	for _, c := range []struct {
		filter Filter
		want   []int64
	}{
		{Filter{}, []int64{1, 2, 3, 4}},
		{Filter{Last: 3}, []int64{2, 3, 4}},
		{Filter{Mix: "W7"}, []int64{1, 3}},
		{Filter{Mode: results.Simulated, Last: 1}, []int64{4}},
		{Filter{Scheduler: "sa", Node: "sim:4xV100", Status: results.Complete}, []int64{2, 4}},
		{Filter{IDs: []int64{4, 1, 99}}, []int64{1, 4}},
		{Filter{Status: results.Interrupted}, nil},
		{Filter{Undoubted: true}, []int64{2, 4}},
	} {
		found, err := s.Runs(ctx, c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, r := range found {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v selects %v, want %v", c.filter, got, c.want)
		}
	}
	if r, err := s.Latest(ctx, Filter{Mix: "W7"}); err != nil || r.ID != 3 {
		t.Errorf("latest W7 is %d (%v), want 3", r.ID, err)
	}
}

// dump returns every row of every table except the migrations' table.
func dump(t *testing.T, s *Store) string {
	t.Helper()
	ctx := context.Background()
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, table := range tables {
		fmt.Fprintln(&out, table)
		if err := s.Rows(ctx, table, Filter{}, func(cells []any) error {
			_, err := fmt.Fprintln(&out, cells...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestIdenticalSimulatedRunsGiveIdenticalStores(t *testing.T) {
	var dumps []string
	for range 2 {
		s := openTemp(t)
		run, found := fullRun()
		run.Mode, run.StartedAt = results.Simulated, nil
		record(t, s, run, fullRows(found))
		dumps = append(dumps, dump(t, s))
	}
	if diff := cmp.Diff(dumps[0], dumps[1]); diff != "" {
		t.Errorf("two stores of the same run differ:\n%s", diff)
	}
	for _, want := range []string{"backprop", "sim", "too large", "GPU-1"} {
		if !strings.Contains(dumps[0], want) {
			t.Errorf("the dump lacks %q", want)
		}
	}
}

func TestSimulatedRunsHaveNoWallClock(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	run.Mode = results.Simulated
	if _, err := s.BeginRun(context.Background(), run, found); err == nil {
		t.Error("a simulated run with a start time was stored")
	}
}

func TestEveryWordOfTheRecordsIsAccepted(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	var r rows
	r.Devices = found
	for i, o := range []results.Outcome{results.OK, results.OOM, results.Fault, results.Collateral, results.Refused,
		results.Crash, results.Timeout, results.Wrong, results.Cancelled, results.NotStarted} {
		r.Jobs = append(r.Jobs, results.Job{Index: i, Outcome: &o})
	}
	record(t, s, run, r)
	run.Status = results.Interrupted
	record(t, s, run, r)
	r.Jobs = []results.Job{{Index: 0, Outcome: ptr(results.Outcome("fine"))}}
	id, err := s.BeginRun(context.Background(), run, found)
	if err != nil {
		t.Fatal(err)
	}
	w := s.Writer(id)
	w.Job(r.Jobs[0])
	if err := w.Flush(context.Background()); err == nil {
		t.Error("an unknown outcome was stored")
	}
}

func TestDeletingARunDeletesItsRows(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	record(t, s, run, fullRows(found))
	kept := record(t, s, run, fullRows(found))
	for _, id := range []int64{1, kept} {
		w := s.Writer(id)
		for i := range packAfter + 1 {
			w.Segment(results.Segment{Series: results.SeriesSimulated, FirstS: float64(i), LastS: float64(i), Samples: 1, Value: ptr(0.0)})
		}
		if err := w.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.write.Exec("DELETE FROM run WHERE id <> ?", kept); err != nil {
		t.Fatal(err)
	}
	for table := range upserts {
		var runs, rows int
		err := s.read.QueryRow("SELECT count(DISTINCT run_id), count(*) FROM "+table).Scan(&runs, &rows)
		if err != nil || runs != 1 || rows == 0 {
			t.Errorf("table %s holds %d rows of %d runs (%v), want those of one", table, rows, runs, err)
		}
	}
}

func TestCommandsOf(t *testing.T) {
	s := openTemp(t)
	for _, mix := range []string{"W1", "W2"} {
		run, found := fullRun()
		run.Mix = mix
		id, err := s.BeginRun(t.Context(), run, found)
		if err != nil {
			t.Fatal(err)
		}
		w := s.Writer(id)
		for _, i := range []int{10, 2, 0} { // read by number, not in this order
			w.Job(results.Job{Index: i, Name: mix, Command: fmt.Sprint(mix, " ", i)})
		}
		run.ID = id
		if err := w.Finish(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.CommandsOf(t.Context(), Filter{Mix: "W2"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int64]string{2: "W2 0\nW2 2\nW2 10"}, got); diff != "" {
		t.Error(diff)
	}
}

// A fault counts only in a live run of the suite in which the job had its device to itself.
func TestFaultsAlone(t *testing.T) {
	s := openTemp(t)
	for _, c := range []struct {
		scheduler, suite, command string
		mode                      results.Mode
		outcome                   results.Outcome
	}{
		{"sa", "builtin", "alone", results.Live, results.Fault},
		{"sa", "builtin", "alone", results.Live, results.Fault},
		{"sa", "builtin", "well", results.Live, results.OK},
		{"case-alg3", "builtin", "shared", results.Live, results.Fault},
		{"sa", "other", "elsewhere", results.Live, results.Fault},
		{"sa", "builtin", "modelled", results.Simulated, results.Fault},
	} {
		run, found := fullRun()
		run.Scheduler, run.Suite, run.Mode = c.scheduler, c.suite, c.mode
		if c.mode == results.Simulated {
			run.StartedAt = nil
		}
		id, err := s.BeginRun(t.Context(), run, found)
		if err != nil {
			t.Fatal(err)
		}
		w := s.Writer(id)
		w.Job(results.Job{Name: c.command, Command: c.command, Outcome: &c.outcome})
		run.ID = id
		if err := w.Finish(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.FaultsAlone(t.Context(), "builtin")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"alone": 2}, got); diff != "" {
		t.Error(diff)
	}
}

// Earlier versions stored names as they were spelled. Users find them in any spelling, and read one.
func TestNamesOfEarlierVersions(t *testing.T) {
	s := openTemp(t)
	run, found := fullRun()
	record(t, s, run, fullRows(found))
	record(t, s, run, fullRows(found))
	const composed, decomposed, disordered = "n\u00fc\u1e69", "nu\u0308s\u0323\u0307", "nu\u0308s\u0307\u0323"
	for id, spelled := range []string{decomposed, disordered} {
		if _, err := s.write.Exec("UPDATE run SET mix = ?1, tag = ?1, checksum = NULL WHERE id = ?2", spelled, id+1); err != nil {
			t.Fatal(err)
		}
	}
	for _, spelled := range []string{composed, decomposed, disordered} {
		for _, f := range []Filter{{Tag: spelled}, {Mix: spelled}} {
			runs, err := s.Runs(t.Context(), f)
			if err != nil || len(runs) != 2 || runs[0].Tag != composed || runs[1].Mix != composed {
				t.Errorf("%+q %+q: %d runs (%v)", f.Mix, f.Tag, len(runs), err)
			}
		}
		if runs, err := s.Runs(t.Context(), Filter{NotMixes: []string{spelled}}); err != nil || len(runs) != 0 {
			t.Errorf("without mix %+q: %d runs (%v)", spelled, len(runs), err)
		}
	}
	names, err := s.Names(t.Context())
	if want := []string{composed}; err != nil || !slices.Equal(names.Mixes, want) || !slices.Equal(names.Tags, want) {
		t.Errorf("names %+q (%v), want %+q", names, err, want)
	}
}

// A value that is not finite is unknown, as in a file that somebody has edited.
func TestInfiniteValuesAreUnknown(t *testing.T) {
	ctx := t.Context()
	s := openTemp(t)
	run, found := fullRun()
	id := record(t, s, run, fullRows(found))
	conn, err := s.write.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var statements []string
	for table, columns := range map[string][]string{
		runs.table:     {"throughput_jobs_per_s", "makespan_s", "turnaround_mean_s", "energy_j", "sampler_period_s"},
		devices.table:  {"utilization_mean", "energy_j"},
		jobs.table:     {"start_s", "end_s", "user_s"},
		tasks.table:    {"grant_s"},
		segments.table: {"value"},
	} {
		for _, column := range columns {
			statements = append(statements, fmt.Sprintf("UPDATE %s SET %s = 9e999", table, column))
		}
	}
	statements = append(statements, "UPDATE run SET turnaround_p95_s = -9e999", "UPDATE run SET checksum = NULL")
	statements = slices.Concat([]string{"PRAGMA ignore_check_constraints = ON"}, statements, []string{"PRAGMA ignore_check_constraints = OFF"})
	if err := errors.Join(execute(ctx, conn, statements...), conn.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Run(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	m := got.Metrics
	for name, v := range map[string]*float64{"throughput": m.ThroughputJobsPerS, "makespan": m.MakespanS, "turnaround": m.TurnaroundMeanS,
		"p95": m.TurnaroundP95S, "energy": m.Energy.UsedJ, "period": got.Sampler.PeriodS} {
		if v != nil {
			t.Errorf("%s is %v", name, *v)
		}
	}
	if m.UtilizationMean == nil {
		t.Error("a finite value is unknown too")
	}
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		err := s.Rows(ctx, table, Filter{Warmups: true}, func(cells []any) error {
			for i, cell := range cells {
				if v, is := cell.(float64); is && math.IsInf(v, 0) {
					t.Errorf("%s.%s is %v", table.Name, table.Columns[i].Name, v)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := s.write.ExecContext(ctx, "UPDATE event SET at_s = 9e999"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Events(ctx, id); err == nil || !strings.Contains(err.Error(), "a value is not finite") {
		t.Errorf("an event at no time: %v", err)
	}
}
