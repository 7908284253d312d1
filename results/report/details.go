package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// JobTable has a row for each job. Notes below it say why jobs failed, with the end of
// their stderr. Text has the arrivals if they differ, and the used memory if a job's is known.
func JobTable(r results.Run, jobs []results.Job) *Table {
	where := func(known func(results.Job) bool) Place { return whereKnown(slices.ContainsFunc(jobs, known)) }
	arrival := where(func(j results.Job) bool { return j.ArrivalS != nil && *j.ArrivalS > 0 })
	used := where(func(j results.Job) bool { return j.UsedBytes != nil })
	energy := where(func(j results.Job) bool { return j.EnergyEstimateJ != nil })
	unaccounted := where(func(j results.Job) bool { return j.UnaccountedBytes != nil && *j.UnaccountedBytes > 0 })
	user := where(func(j results.Job) bool { return j.User != nil })
	deadline := where(func(j results.Job) bool { return j.DeadlineS != nil })
	restarts := where(func(j results.Job) bool { return j.Restarts != nil })
	lost := where(func(j results.Job) bool { return j.LostS != nil })
	notes, _ := failures(jobs, true, len(jobs))
	t := &Table{Name: "job", Title: about("jobs of run", r), Detail: true, Notes: notes, Columns: ofRun(
		Column{Name: "job_index", Heading: "job"}, Column{Name: "name"}, Column{Name: "command", Place: DataOnly},
		Column{Name: "class", Place: DataOnly}, Column{Name: "device_index", Heading: "device", Title: "GPU"},
		Column{Name: "footprint", Heading: "declared", Title: "Footprint", Unit: Bytes, Drop: 4},
		Column{Name: "used", Unit: Bytes, Place: used, Drop: 1}, Column{Name: "arrival", Unit: Seconds, Place: arrival, Drop: 5},
		Column{Name: "start", Unit: Seconds, Drop: 3}, Column{Name: "wait", Title: "Waited", Unit: Seconds},
		Column{Name: "end", Unit: Seconds, Place: DataOnly}, Column{Name: "turnaround", Unit: Seconds},
		Column{Name: "user", Unit: Seconds, Place: DataOnly}, Column{Name: "sys", Unit: Seconds, Place: DataOnly},
		Column{Name: "max_rss", Unit: Bytes, Place: DataOnly}, Column{Name: "outcome", Crashes: true},
		Column{Name: "exit", Place: TextOnly, Drop: 2}, Column{Name: "exit_status", Place: DataOnly},
		Column{Name: "signal", Place: DataOnly}, Column{Name: "detail", Place: DataOnly},
		Column{Name: "stderr_tail", Place: DataOnly}, Column{Name: "energy_estimate", Heading: "energy (est.)", Unit: Joules, Place: energy},
		Column{Name: "deadline", Unit: Seconds, Place: deadline, Drop: 6}, Column{Name: "deadline_met", Heading: "met", Title: "Deadline met", Place: deadline},
		Column{Name: "devices", Place: DataOnly},
		Column{Name: "user_name", Heading: "user", Place: user}, Column{Name: "credits", Place: DataOnly},
		Column{Name: "unaccounted", Title: "Unaccounted", Unit: Bytes, Place: unaccounted, Drop: 2},
		Column{Name: "restarts", Place: restarts}, Column{Name: "lost", Title: "Lost by stops", Unit: Seconds, Place: lost, Drop: 2},
	)}
	if energy == Everywhere {
		t.Say(energyNote)
	}
	for _, j := range jobs {
		exit := cell(j.ExitStatus)
		if j.Signal != nil {
			exit = *j.Signal
		}
		t.Add(r.ID, r.Mode, j.Index, j.Name, j.Command, j.Class, devices(j), j.FootprintBytes, j.UsedBytes, j.ArrivalS, j.StartS, j.WaitS, j.EndS,
			j.TurnaroundS(), j.UserS, j.SysS, j.MaxRSSBytes, j.Outcome, exit, j.ExitStatus, j.Signal, j.Detail, j.StderrTail, j.EnergyEstimateJ, j.DeadlineS, met(j), j.Devices, j.User, j.Credits, j.UnaccountedBytes, j.Restarts, j.LostS)
	}
	return t
}

// RankTable has a row for each rank of jobs that have several, and for each portion.
func RankTable(r results.Run, ranks []results.Rank) *Table {
	one, all := results.KindOfRanks(ranks)
	t := &Table{Name: "rank", Title: about(all+" of run", r), Detail: true, Columns: ofRun(
		Column{Name: "job_index", Heading: "job"}, Column{Name: "rank", Heading: one}, Column{Name: "device_index", Heading: "device", Place: whereKnown(one != "rank")}, Column{Name: "pid", Heading: "PID", Place: whereKnown(r.Mode == results.Live)},
		Column{Name: "start", Unit: Seconds, Drop: 1}, Column{Name: "end", Unit: Seconds},
		Column{Name: "user", Unit: Seconds, Place: whereKnown(r.Mode == results.Live)}, Column{Name: "sys", Unit: Seconds, Place: whereKnown(r.Mode == results.Live)},
		Column{Name: "max_rss", Heading: "max RSS", Unit: Bytes, Place: whereKnown(r.Mode == results.Live), Drop: 2}, Column{Name: "outcome", Crashes: true},
		Column{Name: "exit", Place: TextOnly}, Column{Name: "exit_status", Place: DataOnly}, Column{Name: "signal", Place: DataOnly}, Column{Name: "detail", Drop: 3}, Column{Name: "portion", Place: DataOnly},
	)}
	for _, k := range ranks {
		exit := cell(k.ExitStatus)
		if k.Signal != nil {
			exit = *k.Signal
		}
		t.Add(r.ID, r.Mode, k.Job, k.Rank, k.Device, k.PID, k.StartS, k.EndS, k.UserS, k.SysS, k.MaxRSSBytes, k.Outcome, exit, k.ExitStatus, k.Signal, given(k.Detail), k.Portion)
	}
	return t
}

// met says whether a job met its deadline; nil if that is unknown.
func met(j results.Job) any {
	in := j.MetDeadline()
	if in == nil {
		return nil
	}
	return Cell{Value: *in, Text: map[bool]string{true: "yes", false: "no"}[*in]}
}

// devices is the job's device, or the list of its devices if it has several.
func devices(j results.Job) any {
	if j.Devices == nil {
		return j.Device
	}
	return Cell{Value: *j.Device, Text: *j.Devices}
}

// taskTable has a row for each GPU task.
func taskTable(r results.Run, tasks []results.Task) *Table {
	t := &Table{Name: "task", Title: about("tasks of run", r), Detail: true, Columns: ofRun(
		Column{Name: "job_index", Heading: "job"}, Column{Name: "task_seq", Heading: "task"},
		Column{Name: "device_index", Heading: "device"}, Column{Name: "memory", Unit: Bytes, Place: TextOnly},
		Column{Name: "bytes", Place: DataOnly}, Column{Name: "heap", Unit: Bytes, Drop: 7}, Column{Name: "grown", Unit: Bytes, Drop: 6},
		Column{Name: "blocks", Drop: 4}, Column{Name: "threads_per_block", Drop: 5}, Column{Name: "submit", Unit: Seconds, Drop: 1},
		Column{Name: "grant", Unit: Seconds}, Column{Name: "wait", Unit: Seconds, Place: TextOnly}, Column{Name: "release", Unit: Seconds, Drop: 2}, Column{Name: "passed", Drop: 3},
		Column{Name: "refusal"},
	)}
	for _, k := range tasks {
		var wait any
		if k.GrantS != nil {
			wait = *k.GrantS - k.SubmitS
		}
		t.Add(r.ID, r.Mode, k.Job, k.Seq, k.Device, k.Bytes, k.Bytes, k.HeapBytes, k.GrownBytes, k.Blocks, k.ThreadsPerBlock,
			k.SubmitS, k.GrantS, wait, k.ReleaseS, k.Passed, k.Refusal)
	}
	return t
}

// DeviceTable has a row for each device of the run's node.
func DeviceTable(r results.Run, devices []results.Device) *Table {
	energy := whereKnown(r.Mode == results.Live && slices.ContainsFunc(devices, func(d results.Device) bool { return d.EnergySource != nil }))
	clustered := whereKnown(results.OnSeveralNodes(devices))
	divided := whereKnown(slices.ContainsFunc(devices, func(d results.Device) bool { return d.GPU != nil })) // their names are alike
	t := &Table{Name: "device", Title: about("devices of run", r), Columns: ofRun(
		Column{Name: "device_index", Heading: "device", Title: "GPU"}, Column{Name: "node_index", Heading: "node", Place: clustered}, Column{Name: "name"}, Column{Name: "uuid", Heading: "UUID", Title: "UUID", Place: divided},
		Column{Name: "memory", Unit: Bytes}, Column{Name: "used_at_start", Unit: Bytes, Place: DataOnly},
		Column{Name: "capacity", Unit: Bytes}, Column{Name: "context", Unit: Bytes, Place: DataOnly},
		Column{Name: "peak_used", Heading: "peak used", Unit: Bytes}, Column{Name: "sms", Heading: "SMs"},
		Column{Name: "warps_per_sm", Place: DataOnly}, Column{Name: "blocks_per_sm", Place: DataOnly},
		Column{Name: "sm_clock_start", Heading: "SM clock at start", Title: "Clock at start", Unit: Hertz},
		Column{Name: "sm_clock_end", Heading: "at end", Unit: Hertz},
		Column{Name: "throttle_start", Title: "Throttle at start", Place: DataOnly}, Column{Name: "throttle_end", Heading: "throttle at end", Title: "At end"},
		Column{Name: "utilization_mean", Heading: "mean util", Title: "Mean utilization", Unit: Ratio},
		Column{Name: "utilization_peak", Heading: "peak util", Title: "Peak", Unit: Ratio},
		Column{Name: "refresh", Unit: Seconds}, Column{Name: "resident_mean", Heading: "kernel resident", Unit: Ratio},
		Column{Name: "energy", Unit: Joules, Place: energy}, Column{Name: "energy_idle", Heading: "with no task", Unit: Joules, Place: energy},
		Column{Name: "energy_source", Heading: "energy from", Place: energy},
		Column{Name: "mig_gpu_uuid", Place: DataOnly}, Column{Name: "mig_profile", Place: DataOnly},
	)}
	for _, d := range devices {
		t.Add(r.ID, r.Mode, d.Index, d.Node, d.Name, d.UUID, d.MemoryBytes, d.UsedAtStartBytes, d.CapacityBytes, d.ContextBytes,
			d.PeakUsedBytes, d.SMs, d.WarpsPerSM, d.BlocksPerSM, d.SMClockStartHz, d.SMClockEndHz,
			d.ThrottleStart, d.ThrottleEnd, d.UtilizationMean, d.UtilizationPeak, d.RefreshS, d.ResidentMean,
			d.EnergyJ, d.IdleEnergyJ, d.EnergySource, d.GPU, d.Profile)
	}
	return t
}

// EventTable has a row for each event, in the order in which they were recorded.
func EventTable(r results.Run, events []results.Event) *Table {
	t := &Table{Name: "event", Title: about("events of run", r), Columns: ofRun(
		Column{Name: "at", Unit: Seconds}, Column{Name: "kind"}, Column{Name: "job_index", Heading: "job"},
		Column{Name: "device_index", Heading: "device"}, Column{Name: "of", Place: PageOnly}, Column{Name: "detail"},
	)}
	for _, e := range events {
		var of []string
		if e.Job != nil {
			of = append(of, fmt.Sprintf("job %d", *e.Job))
		}
		if e.Device != nil {
			of = append(of, fmt.Sprintf("GPU %d", *e.Device))
		}
		t.Add(r.ID, r.Mode, e.AtS, e.Kind, e.Job, e.Device, strings.Join(of, ", "), e.Detail)
	}
	return t
}

// RunTables show a run of a store, and if verbose all its records.
func RunTables(ctx context.Context, db *store.Store, run results.Run, verbose bool) ([]*Table, error) {
	jobs, err := db.Jobs(ctx, run.ID)
	devices, err2 := db.Devices(ctx, run.ID)
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	tables := []*Table{RunSummary(run, jobs, devices, db.Path())}
	if !verbose {
		return tables, nil
	}
	tasks, err := db.Tasks(ctx, run.ID)
	events, err2 := db.Events(ctx, run.ID)
	kernels, err3 := db.Kernels(ctx, run.ID)
	swaps, err4 := db.Swaps(ctx, run.ID)
	expected, err5 := db.Predictions(ctx, run.ID)
	ranks, err6 := db.Ranks(ctx, run.ID)
	if err := cmp.Or(err, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	tables = append(tables, DeviceTable(run, devices), JobTable(run, jobs))
	if len(ranks) > 0 {
		tables = append(tables, RankTable(run, ranks))
	}
	tables = append(tables, taskTable(run, tasks))
	if len(expected) > 0 {
		tables = append(tables, predictionTable(run, jobs, expected))
	}
	if len(swaps) > 0 {
		tables = append(tables, swapTable(run, swaps))
	}
	return append(tables, kernelTable(run, kernels), EventTable(run, events)), nil
}
