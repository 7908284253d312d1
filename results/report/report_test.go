package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

func liveRun() results.Run {
	return results.Run{
		ID: 3, Mix: "W7", MixSource: "catalog", Scheduler: "case-alg3", Parameters: "age=32,queue=largest-first",
		Node: "local", Mode: results.Live, Suite: "builtin", Seed: 1<<64 - 1, Workers: 6,
		StartedAt: ptr(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)), Status: results.Complete, Jobs: 4,
		Metrics: results.Metrics{
			OK: 2, OOM: 1, Crashed: 2, MakespanS: ptr(123.456789), ThroughputJobsPerS: ptr(2 / 123.456789),
			AttemptedJobsPerS: ptr(4 / 123.456789), TurnaroundMeanS: ptr(61.72), TurnaroundP95S: ptr(120.5),
			WaitMeanS: ptr(0.0123456), UtilizationMean: ptr(0.4567), UtilizationPeak: ptr(1.0),
		},
		Sampler: results.Sampler{PeriodS: ptr(0.001), Samples: ptr(int64(123400)), MissedDeadlines: ptr(int64(56)),
			LongestGapS: ptr(0.0042), CPUS: ptr(0.9), Errors: ptr(int64(0))},
	}
}

func simRun() results.Run {
	return results.Run{
		ID: 4, Mix: "W1", MixSource: "catalog", Scheduler: "sa", Node: "sim:2xV100", Mode: results.Simulated,
		Suite: "builtin", Repetition: 1, Seed: 7, Status: results.Interrupted, Jobs: 4,
		Metrics: results.Metrics{OK: 3, Cancelled: 1, MakespanS: ptr(40.0), ThroughputJobsPerS: ptr(0.075),
			AttemptedJobsPerS: ptr(0.1), TurnaroundMeanS: ptr(20.0), TurnaroundP95S: ptr(38.0), WaitMeanS: ptr(0.0),
			UtilizationMean: ptr(0.25), UtilizationPeak: ptr(0.5), KernelUtilizationMean: ptr(0.2)},
	}
}

func someDevices(name string, n int) []results.Device {
	var out []results.Device
	for i := range n {
		out = append(out, results.Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: name, MemoryBytes: 16 << 30,
			CapacityBytes: 15 << 30, SMs: 80, SMClockStartHz: ptr(int64(1380e6)), PeakUsedBytes: ptr(int64(9 << 30)),
			UtilizationMean: ptr(0.25), UtilizationPeak: ptr(0.5), RefreshS: ptr(0.2)})
	}
	return out
}

func someJobs() []results.Job {
	return []results.Job{
		{Index: 0, Name: "backprop", Command: "backprop 8388608", Class: "large", FootprintBytes: ptr(int64(5 << 30)), UsedBytes: ptr(int64(1<<30 + 1<<29)),
			Device: ptr(1), StartS: ptr(0.01), EndS: ptr(123.456789), WaitS: ptr(0.000012), Outcome: ptr(results.OK), ExitStatus: ptr(0)},
		{Index: 1, Name: "lud", Command: `lud -s "a|b"`, FootprintBytes: ptr(int64(9<<30 + 1<<29)), Device: ptr(0), StartS: ptr(0.01),
			EndS: ptr(2.5), WaitS: ptr(0.0), Outcome: ptr(results.OOM), ExitStatus: ptr(0),
			Detail: "cudaMalloc of 9 GiB failed | after 1.2 s", StderrTail: "line one\n\x1b[31mline, \"two\"\x1b[0m\n"},
		{Index: 2, Name: "srad", Command: "srad", Device: ptr(0), StartS: ptr(1.0), EndS: ptr(60.0), WaitS: ptr(1.0),
			Outcome: ptr(results.Crash), Signal: ptr("SIGSEGV")},
		{Index: 3, Name: "waits", Command: "waits"},
	}
}

// simJobs do not say how much memory they used.
func simJobs() []results.Job {
	jobs := someJobs()[:1]
	jobs[0].UsedBytes, jobs[0].LostS = nil, ptr(12.5)
	return jobs
}

// dueJobs have deadlines: the first is met, the others are not.
func dueJobs() []results.Job {
	jobs := someJobs()
	for i := range jobs[:3] {
		jobs[i].DeadlineS = ptr(123.5)
	}
	return jobs
}

func views() map[string]*Table {
	live, sim := liveRun(), simRun()
	tasks := []results.Task{
		{Job: 0, Bytes: 5 << 30, HeapBytes: 8 << 20, Blocks: 1 << 20, ThreadsPerBlock: 256, Device: ptr(1), SubmitS: 0.5,
			GrantS: ptr(0.500012), ReleaseS: ptr(100.0), Passed: 2},
		{Job: 1, Bytes: 99 << 30, Blocks: 1, ThreadsPerBlock: 32, SubmitS: 0.5, Refusal: ptr("needs 99 GiB, devices have 15 GiB")},
	}
	events := []results.Event{
		{AtS: 2.4, Kind: results.EventOOM, Job: ptr(1), Device: ptr(0), Detail: "cudaMalloc of 9 GiB"}, {AtS: 3, Kind: results.EventCancelled},
	}
	return map[string]*Table{
		"summary":     RunSummary(live, someJobs(), someDevices("Tesla V100", 2), "/tmp/caserun.db"),
		"summary_sim": RunSummary(sim, nil, someDevices("Tesla V100", 2), "/tmp/caserun.db"),
		"list":        RunList([]results.Run{live, sim, {ID: 5, Mix: "W2", Scheduler: "cg", Node: "local", Mode: results.Live, Status: results.Running, Jobs: 9}}),
		"jobs":        JobTable(live, someJobs()),
		"jobs_sim":    JobTable(sim, simJobs()),
		"jobs_due":    JobTable(sim, dueJobs()),
		"tasks":       taskTable(live, tasks),
		"devices":     DeviceTable(sim, someDevices("Tesla V100", 2)),
		"events":      EventTable(live, events),
		"ranks":       RankTable(live, someRanks()),
		"ranks_sim":   RankTable(sim, someRanks()[1:]),
		"portions":    RankTable(live, []results.Rank{{Job: 1, Portion: true, Device: new(1), StartS: new(0.5), EndS: new(9.5), Outcome: new(results.Crash), ExitStatus: new(3), Detail: "exit status 3"}, {Job: 1, Rank: 1, Portion: true, EndS: new(9.5), Outcome: new(results.Cancelled), Detail: "ended because portion 0 had failed"}}),

		"summary_swapped":      RunSummary(swappedRun(results.Simulated), nil, nil, "/tmp/caserun.db"),
		"summary_swapped_live": RunSummary(swappedRun(results.Live), nil, nil, "/tmp/caserun.db"),
		"list_swapped":         RunList([]results.Run{live, swappedRun(results.Simulated)}),
		"swaps":                swapTable(swappedRun(results.Simulated), someSwaps()),
		"swaps_live":           swapTable(swappedRun(results.Live), someSwaps()[:2]),

		"summary_traced":  RunSummary(tracedRun(), nil, someDevices("NVIDIA H200", 1), "/tmp/caserun.db"),
		"list_traced":     RunList([]results.Run{live, tracedRun()}),
		"summary_guarded": RunSummary(guardedRun(), nil, someDevices("NVIDIA H200", 1), "/tmp/caserun.db"),
		"list_guarded":    RunList([]results.Run{live, guardedRun()}),
		"kernels":         kernelTable(tracedRun(), someKernels()),
		"slowdown":        someSlowdown()[0],
		"slowdown_jobs":   someSlowdown()[1],
		"trend":           someTrend()[0],
		"trend_steps":     someTrend()[1],
		"trend_points":    someTrend()[2],
	}
}

func tracedRun() results.Run {
	run := liveRun()
	run.ID, run.Traced, run.Metrics.KernelUtilizationMean = 7, true, ptr(0.61)
	run.Tracer = results.Tracer{Processes: ptr(int64(3)), Kernels: ptr(int64(2049)), Copies: ptr(int64(12)), Lost: ptr(int64(5)),
		Cut: ptr(int64(1)), Untraced: ptr(int64(1))}
	return run
}

func swappedRun(mode results.Mode) results.Run {
	run := simRun()
	if mode == results.Live {
		run = liveRun()
	}
	run.ID, run.Scheduler, run.Parameters = 9, "vgpu", "n=2"
	run.Metrics.Swapping = results.NewSwapping(run, nil, someSwaps())
	return run
}

func someRanks() []results.Rank {
	return []results.Rank{
		{Job: 1, Rank: 0, PID: ptr(77), StartS: ptr(0.5), EndS: ptr(9.5), UserS: ptr(8.0), SysS: ptr(1.0), MaxRSSBytes: ptr(int64(1 << 30)), Outcome: ptr(results.Crash), ExitStatus: ptr(3), Detail: "exit status 3"},
		{Job: 1, Rank: 1, StartS: ptr(0.5), EndS: ptr(9.75), Outcome: ptr(results.Cancelled), Signal: ptr("SIGTERM"), Detail: "ended because rank 0 had failed"},
	}
}

func someSwaps() []results.Swap {
	out := results.Swap{Job: 1, Direction: schedulers.Out, Action: "stop", Outcome: schedulers.Done, StartS: 1, EndS: 1.5, Bytes: 5 << 30,
		DrainS: 0.0625, CopyS: 0.25, BookkeepingS: 0.0125, ResidentBytes: ptr(int64(1 << 30)), FixedBytes: ptr(int64(64 << 20)), LostS: ptr(12.5), ForJob: ptr(2), ForTask: ptr(0)}
	in := results.Swap{Job: 1, Direction: schedulers.In, Outcome: schedulers.Done, StartS: 2, EndS: 2.5, Bytes: 4 << 30, CopyS: 0.25, BookkeepingS: 0.0125}
	busy, unable := out, out
	busy.Outcome, busy.StartS, busy.EndS, busy.Bytes, busy.CopyS, busy.BookkeepingS, busy.LostS, busy.ForTask = schedulers.Busy, 0.5, 0.75, 0, 0, 0, ptr(0.0), nil
	unable.Job, unable.Device, unable.Action, unable.Outcome, unable.StartS, unable.EndS, unable.Bytes, unable.DrainS, unable.CopyS, unable.BookkeepingS = 3, 1, "evict", schedulers.Unable, 3, 3, 0, 0, 0, 0
	unable.Why, unable.LostS, unable.ForJob, unable.ForTask = "its memory can be exported (cudaIpcGetMemHandle)", nil, nil, nil
	return []results.Swap{out, in, busy, unable}
}

func guardedRun() results.Run {
	run := liveRun()
	run.ID, run.Provenance.Configuration = 8, `[{"Key":"guard","Value":true}]`
	return run
}

func someKernels() []results.Kernel {
	short := results.Kernel{Job: 0, Name: "fill(float*, int)", Grid: "8,1,1", Block: "256,1,1", StartS: 1, EndS: 1.25, BusyS: 0.25,
		Registers: 16, StaticSharedBytes: 1024, DynamicSharedBytes: 512}
	long := short
	long.Name, long.BusyS, long.Registers = "sum<float>(float const*)", 2, 40
	return []results.Kernel{short, long, short, {Job: 1, Name: "all kernels (simulated)", StartS: 1, EndS: 5, BusyS: 3}}
}

func someSlowdown() []*Table {
	baseline := tracedRun()
	baseline.ID, baseline.Scheduler, baseline.Mix, baseline.Status = 2, "cg", "W1", results.Interrupted
	return SlowdownTables(tracedRun(), baseline, results.Slowdown{Mean: ptr(0.0123), Jobs: []results.JobSlowdown{
		{Job: 0, Name: "backprop", Command: "backprop 8388608", Pairs: 10, Unpaired: 1, Missing: 2, KernelS: 1.0123, BaselineS: 1, Slowdown: ptr(0.0123)},
		{Job: 1, Name: "lud", Command: "lud", Why: "did not end ok"},
	}})
}

func render(t *testing.T, table *Table, f Format, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := table.Render(&out, f, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// ending is that of the golden file of a format.
func ending(f Format) string { return strings.Replace(string(f), string(Text), "txt", 1) }

func TestGolden(t *testing.T) {
	for name, table := range views() {
		for _, f := range []Format{Text, CSV, JSON, Markdown} { // TSV has what CSV has
			golden(t, name+"."+ending(f), render(t, table, f, Options{}))
		}
	}
}

func TestSimulatedNumbersSaySoInEveryFormat(t *testing.T) {
	sim := simRun()
	for name, table := range map[string]*Table{
		"summary": RunSummary(sim, nil, nil, "x"), "list": RunList([]results.Run{sim}),
		"jobs": JobTable(sim, someJobs()), "tasks": taskTable(sim, []results.Task{{}}),
		"devices": DeviceTable(sim, someDevices("x", 1)), "events": EventTable(sim, []results.Event{{}}),
		"kernels": kernelTable(sim, someKernels()),
	} {
		for _, f := range []Format{Text, Markdown} {
			if first, _, _ := strings.Cut(render(t, table, f, Options{}), "\n"); !strings.Contains(first, "SIMULATED") {
				t.Errorf("%s as %s: the title %q lacks SIMULATED", name, f, first)
			}
		}
		records, err := csv.NewReader(strings.NewReader(render(t, table, CSV, Options{}))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var decoded struct{ Rows []map[string]any }
		if err := json.Unmarshal([]byte(render(t, table, JSON, Options{})), &decoded); err != nil {
			t.Fatal(err)
		}
		for i, row := range decoded.Rows {
			if row["mode"] != "sim" {
				t.Errorf("%s as json: mode is %v", name, row["mode"])
			}
			for c, header := range records[0] {
				if _, ok := row[header]; !ok {
					t.Errorf("%s: csv has column %s, json has not", name, header)
				}
				if header == "mode" && records[i+1][c] != "sim" {
					t.Errorf("%s as csv: mode is %q", name, records[i+1][c])
				}
			}
		}
	}
}

func TestCells(t *testing.T) {
	table := &Table{Title: "t", Columns: []Column{{Name: "n"}, {Name: "v", Unit: Seconds}}}
	table.Add(1, (*float64)(nil))
	table.Add(2, math.NaN())
	table.Add(3, ptr(ptr(0.1)))
	table.Add(4, uint64(1<<64-1))
	table.Add(5, "esc \x1b[2J, \"q\"")
	table.Add(6, "a\\|*b*<i>\n")
	want := map[Format]string{
		CSV: "n,v_s\n1,\n2,\n3,0.1\n4,18446744073709551615\n5,\"esc \\x1b[2J, \"\"q\"\"\"\n6,\"a\\|*b*<i>\n\"\n",
		Text: "t\n\nn                     v\n-------------------------\n1                     -\n2                     -\n" +
			"3                100 ms\n4  18446744073709551615\n5      esc \\x1b[2J, \"q\"\n6            a\\|*b*<i>\n",
		Markdown: "### t\n\n| n | v |\n| ---:| ---:|\n| 1 | - |\n| 2 | - |\n| 3 | 100 ms |\n| 4 | 18446744073709551615 |\n" +
			"| 5 | esc \\\\x1b\\[2J, \"q\" |\n| 6 | a\\\\\\|\\*b\\*&lt;i>  |\n",
	}
	for f, w := range want {
		if diff := cmp.Diff(w, render(t, table, f, Options{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f, diff)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a row of the wrong length was taken")
		}
	}()
	table.Add(1)
}

func TestColourOnlyWhenAsked(t *testing.T) {
	table := JobTable(liveRun(), someJobs())
	for _, f := range Formats() {
		if out := render(t, table, f, Options{}); f != CSV && strings.Contains(out, "\x1b") {
			t.Errorf("%s has an escape sequence", f)
		}
	}
	coloured := render(t, table, Text, Options{Color: true})
	if !strings.Contains(coloured, green+"ok"+reset) || !strings.Contains(coloured, red+"oom"+reset) {
		t.Error("outcomes have no colour")
	}
	if jobs := []results.Job{{Outcome: new(results.OKAfterOOM)}}; !strings.Contains(render(t, JobTable(liveRun(), jobs), Text, Options{Color: true}), yellow+"ok-after-oom"+reset) {
		t.Error("ok-after-oom has the colour of another outcome")
	}
	swaps := swapTable(liveRun(), []results.Swap{{Direction: schedulers.Out, Outcome: schedulers.Done}})
	if out := render(t, swaps, Text, Options{Color: true}); strings.Contains(out, red) || !strings.Contains(out, "done") {
		t.Errorf("a swap's outcome has the colour of a job's:\n%s", out)
	}
	plain := strings.NewReplacer(bold, "", red, "", green, "", reset, "").Replace(coloured)
	if diff := cmp.Diff(render(t, table, Text, Options{}), plain); diff != "" {
		t.Errorf("colour changes the layout:\n%s", diff)
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range Formats() {
		if got, err := ParseFormat(string(f)); err != nil || got != f {
			t.Errorf("%s: %s, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("xml"); err == nil {
		t.Error("xml was taken")
	}
	if err := (&Table{}).Render(&bytes.Buffer{}, "xml", Options{}); err == nil {
		t.Error("xml was rendered")
	}
}

func TestHuman(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit Unit
		want string
	}{
		{0, Seconds, "0 s"}, {1.19e-5, Seconds, "11.9 us"}, {0.0123456, Seconds, "12.3 ms"}, {1.5, Seconds, "1.50 s"},
		{123.456, Seconds, "123.5 s"}, {0, Bytes, "0 B"}, {1536, Bytes, "1.5 KiB"}, {16 << 30, Bytes, "16 GiB"},
		{1.98e9, Hertz, "1.98 GHz"}, {345e6, Hertz, "345 MHz"}, {0.1234567, JobsPerSecond, "0.1235 jobs/s"},
		{0.4567, Ratio, "45.7 %"}, {-0.0004, Ratio, "0.0 %"}, {-0.004, Ratio, "-0.4 %"}, {-0.1006, Ratio, "-10.1 %"}, {math.NaN(), Ratio, "-"}, {2.5, None, "2.5"},
	} {
		if got := Human(c.v, c.unit); got != c.want {
			t.Errorf("Human(%v, %v) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
