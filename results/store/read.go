package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
)

// Filter selects runs. A zero field does not restrict the selection.
type Filter struct {
	IDs       []int64
	Mix       string
	Scheduler string // or the user's name of an arm
	Node      string
	Mode      results.Mode
	Status    results.Status
	Sweep     int64
	Tag       string
	Suite     string
	Probe     *results.Probe
	GPUs      []string // names of devices: runs that had one of them
	Traced    bool     // traced runs only
	Undoubted bool     // leave out doubtful runs
	NotMixes  []string // leave out the runs of these mixes
	Before    int64    // runs with smaller numbers only
	Warmups   bool     // select warm-up runs too, which are not measurements
	// Duplicates selects also the complete runs of cells of which another run counts.
	Duplicates bool
	Excluded   bool // select also the runs that a user has excluded
	Last       int  // of the selected runs take only the last so many
	Unchecked  bool // take damaged runs too: for what is not a figure, such as an estimate
}

// jsonTexts is a list as one argument, because SQLite limits their number.
func jsonTexts(list []string) string {
	text, _ := json.Marshal(list) // texts always have JSON
	return string(text)
}

// isNamed is the condition that a column of runs has a name, which users may have spelled in another way. The inner query
// reads an index, if there is one.
func isNamed(column string) string {
	return fmt.Sprintf("%[1]s IN (SELECT %[1]s FROM run WHERE case_name(%[1]s) = ?)", column)
}

// where returns a condition on the table run.
func (f Filter) where() (condition string, args []any) {
	terms := []string{"true"}
	for _, term := range []struct {
		set bool
		sql string
		arg any // nil: it has none
	}{
		{len(f.IDs) > 0, "id IN (SELECT value FROM json_each(?))", numbers(f.IDs)},
		{f.Mix != "", isNamed("mix"), input.Name(f.Mix)},
		{f.Scheduler != "", "? IN (scheduler, arm)", f.Scheduler},
		{f.Node != "", "node = ?", f.Node},
		{f.Mode != "", "mode = ?", f.Mode},
		{f.Status != "", "status = ?", f.Status},
		{f.Status == results.Running, "checksum IS NULL", nil}, // else it was complete, and somebody has changed it
		{f.Sweep != 0, "sweep_id = ?", f.Sweep},
		{f.Tag != "", isNamed("tag"), input.Name(f.Tag)},
		{f.Suite != "", "suite = ?", f.Suite},
		{f.Probe != nil, "probe = ?", probe{f.Probe}},
		{len(f.GPUs) > 0, "id IN (SELECT run_id FROM device WHERE name IN (SELECT value FROM json_each(?)))", jsonTexts(f.GPUs)},
		{f.Undoubted, "doubts = ''", nil},
		{f.Traced, "traced = 1", nil},
		{len(f.NotMixes) > 0, "case_name(mix) NOT IN (SELECT case_name(value) FROM json_each(?))", jsonTexts(f.NotMixes)},
		{f.Before > 0, "id < ?", f.Before},
		{!f.Warmups, "warmup = 0", nil},
		{!f.Duplicates, "duplicate = 0", nil},
		{!f.Excluded, "excluded = 0", nil},
	} {
		if term.set {
			terms = append(terms, term.sql)
		}
		if term.set && term.arg != nil {
			args = append(args, term.arg)
		}
	}
	condition = strings.Join(terms, " AND ")
	if f.Last > 0 {
		condition = "id IN (SELECT id FROM run WHERE " + condition + " ORDER BY id DESC LIMIT ?)"
		args = append(args, f.Last)
	}
	return condition, args
}

// Runs returns the selected runs, oldest first. The error is that of Verify, unless the filter is Unchecked.
func (s *Store) Runs(ctx context.Context, f Filter) ([]results.Run, error) {
	checked := make(chan error, 1)
	if f.Unchecked {
		checked <- nil
	} else {
		go func() { checked <- s.Verify(ctx, f) }()
	}
	condition, args := f.where()
	query := fmt.Sprintf("SELECT id, %s, %s FROM run WHERE %s ORDER BY id", ofCell("scheduler"), strings.Join(append([]string{ofCell("probe")}, runs.columns...), ", "), condition)
	found, err := collect(ctx, s, "read runs", query, args, func(r *plannedRun) []any {
		_, values := runs.fields(&r.Run)
		return append([]any{&r.ID, text{&r.cell.Scheduler}, text{&r.probe}}, values...)
	})
	if damaged := <-checked; err == nil && damaged != nil {
		return nil, damaged
	}
	if err != nil {
		return nil, err
	}
	return s.placed(ctx, found)
}

// plannedRun is a run with its cell's scheduler and probe.
type plannedRun struct {
	results.Run
	cell  results.Cell
	probe string
}

// ofCell is a column of a run's cell.
func ofCell(column string) string {
	return fmt.Sprintf("(SELECT cell.%s FROM cell WHERE cell.sweep_id = run.sweep_id AND cell.position = run.cell_position)", column)
}

// placed gives runs their places in the plans of their sweeps, which say nothing of a single run.
func (s *Store) placed(ctx context.Context, found []plannedRun) ([]results.Run, error) {
	var out []results.Run
	specs := map[int64]results.Spec{}
	for _, r := range found {
		if r.Sweep != nil && len(found) > 1 {
			spec, read := specs[*r.Sweep]
			if !read {
				w, err := s.Sweep(ctx, *r.Sweep)
				if err != nil {
					return nil, err
				}
				spec, _ = results.ReadSpec(w) // without it, no place is known
				specs[*r.Sweep] = spec
			}
			if r.cell.Mix = r.Mix; r.probe != "" && r.cell.Probe.UnmarshalText([]byte(r.probe)) == nil {
				r.Place = spec.Place(r.cell)
			}
		}
		out = append(out, r.Run)
	}
	return out, nil
}

// Run returns one run; the error wraps ErrNoRun if the store lacks it.
func (s *Store) Run(ctx context.Context, id int64) (results.Run, error) {
	found, err := s.Runs(ctx, Filter{IDs: []int64{id}, Warmups: true, Duplicates: true, Excluded: true})
	return first(s, fmt.Sprintf("run %d", id), ErrNoRun, found, err)
}

// Latest returns the selected run that began last; the error wraps ErrNoRun if the filter
// selects none.
func (s *Store) Latest(ctx context.Context, f Filter) (results.Run, error) {
	f.Last = 1
	found, err := s.Runs(ctx, f)
	return first(s, "latest run", ErrNoRun, found, err)
}

// first returns the first element of found; the error wraps none if found is empty.
func first[T any](s *Store, what string, none error, found []T, err error) (T, error) {
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("store %s: %s: %w", s.path, what, none)
	}
	if err != nil {
		var nothing T
		return nothing, err
	}
	return found[0], nil
}

// Jobs returns a run's jobs in the order of the mix.
func (s *Store) Jobs(ctx context.Context, run int64) ([]results.Job, error) {
	return list(ctx, s, jobs, run)
}

// Tasks returns a run's tasks by job and sequence.
func (s *Store) Tasks(ctx context.Context, run int64) ([]results.Task, error) {
	return list(ctx, s, tasks, run)
}

// Predictions returns what a run's scheduler expected of its jobs, in the order of the mix. A job of
// which nothing was known is left out.
func (s *Store) Predictions(ctx context.Context, run int64) ([]results.Prediction, error) {
	return list(ctx, s, predictions, run)
}

// Devices returns a run's devices in bus order.
func (s *Store) Devices(ctx context.Context, run int64) ([]results.Device, error) {
	return list(ctx, s, devices, run)
}

// Segments returns a run's utilization by device, series and time.
func (s *Store) Segments(ctx context.Context, run int64) ([]results.Segment, error) {
	packed, err := list(ctx, s, blocks, run)
	if err != nil {
		return nil, err
	}
	out, err := list(ctx, s, segments, run)
	if err != nil || len(packed) == 0 {
		return out, err
	}
	return s.merge(run, packed, out)
}

// merge unpacks blocks and inserts loose segments between them; both are sorted.
func (s *Store) merge(run int64, packed []block, loose []results.Segment) (out []results.Segment, err error) {
	total := len(loose)
	for _, b := range packed {
		total += b.n
	}
	out = make([]results.Segment, 0, total)
	for _, b := range packed {
		first := results.Segment{Device: b.device, Series: b.series, FirstS: b.fromS}
		for len(loose) > 0 && bySeries(loose[0], first) < 0 {
			out, loose = append(out, loose[0]), loose[1:]
		}
		if out, err = b.unpack(out); err != nil {
			return nil, fmt.Errorf("store %s: read utilization of run %d: %w", s.path, run, err)
		}
	}
	out = append(out, loose...)
	if !slices.IsSortedFunc(out, bySeries) { // segments that came out of order lie inside blocks
		slices.SortStableFunc(out, bySeries)
	}
	return out, nil
}

func bySeries(a, b results.Segment) int {
	return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Series, b.Series), cmp.Compare(a.FirstS, b.FirstS))
}

// Kernels returns a run's kernel intervals by job, in the order in which the Writer got them.
func (s *Store) Kernels(ctx context.Context, run int64) (out []results.Kernel, err error) {
	err = s.EachKernel(ctx, run, func(k results.Kernel) error {
		out = append(out, k)
		return nil
	})
	return out, err
}

// EachKernel is Kernels without the list, which may be too long for the memory.
func (s *Store) EachKernel(ctx context.Context, run int64, do func(results.Kernel) error) error {
	return each(ctx, s, kernels, run, func(l *launch) error { return do(l.Kernel) })
}

// EachLaunch calls do with each launch of a traced run, by job, in the order in which the Writer
// got them. It reads less of each than EachKernel, in about a quarter of the time, and leaves out
// aggregates.
func (s *Store) EachLaunch(ctx context.Context, run int64, do func(results.Launch) error) error {
	type shape struct {
		id     int64
		launch results.Launch
	}
	operation := fmt.Sprintf("read the launches of run %d", run)
	found, err := collect(ctx, s, operation, "SELECT shape_id, name, grid, block FROM _kernel_shape WHERE run_id = ? AND grid <> ''", []any{run},
		func(k *shape) []any { return []any{&k.id, &k.launch.Name, &k.launch.Grid, &k.launch.Block} })
	if err != nil {
		return err
	}
	shapes := make(map[int64]results.Launch, len(found))
	for _, k := range found {
		shapes[k.id] = k.launch
	}
	return scan(ctx, s, operation, "SELECT job_index, shape_id, coalesce(busy_s, end_s - start_s) FROM _launch WHERE run_id = ? ORDER BY job_index, ordinal", []any{run},
		func(k *shape) []any { return []any{&k.launch.Job, &k.id, &k.launch.BusyS} },
		func(k *shape) error {
			l, ok := shapes[k.id]
			if !ok {
				return nil
			}
			l.Job, l.BusyS = k.launch.Job, k.launch.BusyS
			return do(l)
		})
}

// EachCopy calls do with a traced run's copies by job, in the order in which the Writer got them.
func (s *Store) EachCopy(ctx context.Context, run int64, do func(results.Copy) error) error {
	return each(ctx, s, copies, run, func(t *transfer) error { return do(t.Copy) })
}

// Ranks returns the ranks of a run's jobs that have several, by job.
func (s *Store) Ranks(ctx context.Context, run int64) ([]results.Rank, error) {
	return list(ctx, s, ranks, run)
}

// Swaps returns a run's swaps by job, in the order in which the Writer got them.
func (s *Store) Swaps(ctx context.Context, run int64) ([]results.Swap, error) {
	found, err := list(ctx, s, swaps, run)
	out := make([]results.Swap, len(found))
	for i := range found {
		out[i] = found[i].Swap
	}
	return out, err
}

// Events returns a run's events in the order in which the Writer got them.
func (s *Store) Events(ctx context.Context, run int64) ([]results.Event, error) {
	found, err := list(ctx, s, events, run)
	out := make([]results.Event, len(found))
	for i := range found {
		out[i] = found[i].Event
	}
	return out, err
}

// list reads the rows of one run in the order of their keys.
func list[T any](ctx context.Context, s *Store, l layout[T], run int64) (out []T, err error) {
	err = each(ctx, s, l, run, func(record *T) error {
		out = append(out, *record)
		return nil
	})
	return out, err
}

// each calls do with each row of one run in the order of their keys.
func each[T any](ctx context.Context, s *Store, l layout[T], run int64, do func(*T) error) error {
	query := fmt.Sprintf("SELECT %s, %s FROM %s WHERE run_id = ? ORDER BY %s",
		strings.Join(l.keys, ", "), strings.Join(l.columns, ", "), l.table, strings.Join(l.keys, ", "))
	operation := fmt.Sprintf("read table %s of run %d", l.table, run)
	return scan(ctx, s, operation, query, []any{run}, func(record *T) []any {
		keys, values := l.fields(record)
		return append(keys, values...)
	}, do)
}

func collect[T any](ctx context.Context, s *Store, operation, query string, args []any, fields func(*T) []any) (out []T, err error) {
	err = scan(ctx, s, operation, query, args, fields, func(record *T) error {
		out = append(out, *record)
		return nil
	})
	return out, err
}

// scan calls do with each row of a query. An error of do ends the query, and is returned as it
// is.
func scan[T any](ctx context.Context, s *Store, operation, query string, args []any, fields func(*T) []any, do func(*T) error) error {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return explain(s.path, operation, err)
	}
	defer rows.Close()
	for rows.Next() {
		var record T
		into := fields(&record)
		if err := rows.Scan(into...); err != nil {
			return explain(s.path, operation, err)
		}
		if err := finite(into); err != nil {
			return explain(s.path, operation, err)
		}
		if err := do(&record); err != nil {
			return err
		}
	}
	return explain(s.path, operation, rows.Err())
}

// finite makes values unknown that are not finite, as an edited file may have them: they are no figures. Values that
// cannot be unknown must be finite.
func finite(read []any) error {
	for _, value := range read {
		switch v := value.(type) {
		case **float64:
			if *v != nil && math.IsInf(**v, 0) {
				*v = nil
			}
		case *float64:
			if math.IsInf(*v, 0) {
				return errors.New("a value is not finite")
			}
		}
	}
	return nil
}

// Modes returns the mode of every selected run by the run's id.
func (s *Store) Modes(ctx context.Context, f Filter) (map[int64]results.Mode, error) {
	type line struct {
		id   int64
		mode results.Mode
	}
	condition, args := f.where()
	found, err := collect(ctx, s, "list runs", "SELECT id, mode FROM run WHERE "+condition, args,
		func(l *line) []any { return []any{&l.id, &l.mode} })
	modes := make(map[int64]results.Mode, len(found))
	for _, l := range found {
		modes[l.id] = l.mode
	}
	return modes, err
}

// Excluded returns how many runs the filter would select beside its own, if they were not excluded.
func (s *Store) Excluded(ctx context.Context, f Filter) (n int, err error) {
	if f.Excluded {
		return 0, nil
	}
	f.Excluded, f.Last = true, 0
	condition, args := f.where()
	err = s.read.QueryRowContext(ctx, "SELECT count(*) FROM run WHERE excluded = 1 AND "+condition, args...).Scan(&n)
	return n, explain(s.path, "count excluded runs", err)
}

// DevicesOf returns the devices of every selected run in bus order, by the run's id.
func (s *Store) DevicesOf(ctx context.Context, f Filter) (map[int64][]results.Device, error) {
	type line struct {
		run int64
		results.Device
	}
	condition, args := f.where()
	query := fmt.Sprintf("SELECT run_id, %s, %s FROM device WHERE run_id IN (SELECT id FROM run WHERE %s) ORDER BY run_id, device_index",
		strings.Join(devices.keys, ", "), strings.Join(devices.columns, ", "), condition)
	found, err := collect(ctx, s, "list devices", query, args, func(l *line) []any {
		keys, values := devices.fields(&l.Device)
		return append(append([]any{&l.run}, keys...), values...)
	})
	byRun := map[int64][]results.Device{}
	for _, l := range found {
		byRun[l.run] = append(byRun[l.run], l.Device)
	}
	return byRun, err
}

// CommandsOf returns the commands of every selected run by the run's id, each as
// results.CommandList gives them.
func (s *Store) CommandsOf(ctx context.Context, f Filter) (map[int64]string, error) {
	type line struct {
		run      int64
		commands string
	}
	condition, args := f.where()
	query := fmt.Sprintf("SELECT run_id, group_concat(command, char(10) ORDER BY job_index) FROM job WHERE run_id IN (SELECT id FROM run WHERE %s) GROUP BY run_id", condition)
	found, err := collect(ctx, s, "list commands", query, args, func(l *line) []any { return []any{&l.run, &l.commands} })
	byRun := make(map[int64]string, len(found))
	for _, l := range found {
		byRun[l.run] = l.commands
	}
	return byRun, err
}

// RunsWithJobs returns the selected runs as Runs does, with the figures that follow from their jobs.
func (s *Store) RunsWithJobs(ctx context.Context, f Filter) ([]results.Run, error) {
	found, err := s.Runs(ctx, f)
	if err != nil {
		return nil, err
	}
	type line struct {
		run      int64
		job      results.Job
		expected results.Expected
		known    bool
	}
	condition, args := f.where()
	query := fmt.Sprintf(`SELECT job.run_id, job.job_index, job.command, job.start_s, job.end_s, job.arrival_s, job.outcome,
			p.run_id IS NOT NULL, ifnull(p.before_s, 0), ifnull(p.held_s, 0), ifnull(p.after_s, 0)
		FROM job LEFT JOIN prediction p ON p.run_id = job.run_id AND p.job_index = job.job_index
		WHERE job.run_id IN (SELECT id FROM run WHERE %s) ORDER BY job.run_id, job.job_index`, condition)
	lines, err := collect(ctx, s, "read the times of jobs", query, args, func(l *line) []any {
		return []any{&l.run, &l.job.Index, &l.job.Command, &l.job.StartS, &l.job.EndS, &l.job.ArrivalS, &l.job.Outcome,
			&l.known, &l.expected.BeforeS, &l.expected.HeldS, &l.expected.AfterS}
	})
	if err != nil {
		return nil, err
	}
	jobs, predictions := map[int64][]results.Job{}, map[int64][]results.Prediction{}
	for _, l := range lines {
		jobs[l.run] = append(jobs[l.run], l.job)
		if l.known {
			predictions[l.run] = append(predictions[l.run], results.Prediction{Job: l.job.Index, Expected: l.expected})
		}
	}
	times := map[int64][]results.JobTimes{}
	for id, own := range jobs {
		times[id] = results.TimesOf(own, predictions[id])
	}
	results.WithJobTimes(found, times)
	return found, nil
}

// FaultsAlone returns by command the latest live run of the suite in which a job of that
// command faulted with a device to itself (scheduler sa).
func (s *Store) FaultsAlone(ctx context.Context, suite string) (map[string]int64, error) {
	type line struct {
		command string
		run     int64
	}
	found, err := collect(ctx, s, "list faults", `SELECT job.command, max(run.id) FROM job JOIN run ON run.id = job.run_id
		WHERE job.outcome = ? AND run.scheduler = 'sa' AND run.mode = ? AND run.suite = ? GROUP BY job.command`,
		[]any{results.Fault, results.Live, suite}, func(l *line) []any { return []any{&l.command, &l.run} })
	out := map[string]int64{}
	for _, l := range found {
		out[l.command] = l.run
	}
	return out, err
}
