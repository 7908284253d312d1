package store

import (
	"context"
	"fmt"

	"github.com/caserun/caserun/results"
)

// Past is a job that ended ok, with what it did.
type Past struct {
	Run     int64
	Job     int
	Traced  bool // its times include the tracer's cost
	GPU     string
	Command string
	results.Expected
}

// EachPast calls do with each job that ended ok and had a device, of all runs that the filter
// selects, by run and job. It leaves out jobs whose memory was moved, because they did not have their
// device all the time, jobs that were started again, and jobs of several devices. commands are the jobs' commands; nil: all.
func (s *Store) EachPast(ctx context.Context, f Filter, commands []string, do func(Past) error) error {
	type line struct {
		past Past
		job  results.Job
		task results.Task
	}
	chosen, args := f.jobs(commands)
	query := `SELECT run.id, run.traced, job.job_index, device.name, job.command, job.start_s, job.end_s, job.used_bytes, job.outcome,
			task.bytes, task.heap_bytes, task.grown_bytes, task.submit_s, task.grant_s, task.release_s
		FROM run JOIN job ON job.run_id = run.id
			JOIN device ON device.run_id = job.run_id AND device.device_index = job.device_index
			JOIN task ON task.run_id = job.run_id AND task.job_index = job.job_index
		WHERE ` + chosen + ` AND job.outcome = 'ok' AND job.devices IS NULL AND job.restarts IS NULL
			AND NOT EXISTS (SELECT 1 FROM swap WHERE swap.run_id = job.run_id AND swap.job_index = job.job_index)
		ORDER BY run.id, job.job_index, task.task_seq`
	var of line // the job whose tasks come
	var tasks []results.Task
	end := func() error {
		var known bool
		if of.past.Expected, known = results.Observe(of.job, tasks); !known {
			return nil
		}
		of.past.Job = of.job.Index
		return do(of.past)
	}
	err := scan(ctx, s, "read what jobs did", query, args, func(l *line) []any {
		j, t := &l.job, &l.task
		return []any{&l.past.Run, &l.past.Traced, &j.Index, &l.past.GPU, &l.past.Command, &j.StartS, &j.EndS, &j.UsedBytes, &j.Outcome,
			&t.Bytes, &t.HeapBytes, &t.GrownBytes, &t.SubmitS, &t.GrantS, &t.ReleaseS}
	}, func(l *line) error {
		if l.past.Run != of.past.Run || l.job.Index != of.job.Index {
			if err := end(); err != nil {
				return err
			}
			of, tasks = *l, tasks[:0]
		}
		tasks = append(tasks, l.task)
		return nil
	})
	if err != nil {
		return err
	}
	return end()
}

// Reached is what jobs of a command used at most that have grown beyond what they had asked for first, in the latest runs.
type Reached struct {
	Command   string
	Bytes     int64 // without the device heap
	HeapBytes int64
	Runs      int
}

// EachReached calls do with what jobs of each of the commands reached that ended ok. Of the runs that the filter selects, the latest of
// each command count. Older runs tell only that its jobs grow: a job that has asked for what it reaches does not.
func (s *Store) EachReached(ctx context.Context, f Filter, commands []string, latest int, do func(Reached) error) error {
	chosen, args := f.jobs(commands)
	query := `WITH one AS (
			SELECT job.command AS command, job.run_id AS run_id, job.used_bytes - heap.bytes AS bytes, heap.bytes AS heap_bytes, heap.grown OR job.restarts > 0 AS grown,
				dense_rank() OVER (PARTITION BY job.command ORDER BY job.run_id DESC) AS age
			FROM run JOIN job ON job.run_id = run.id
				JOIN device ON device.run_id = job.run_id AND device.device_index = job.device_index
				JOIN (SELECT run_id, job_index, max(heap_bytes) AS bytes, max(grown_bytes) > 0 AS grown FROM task GROUP BY run_id, job_index) heap
					ON heap.run_id = job.run_id AND heap.job_index = job.job_index
			WHERE ` + chosen + ` AND job.outcome = 'ok' AND job.devices IS NULL AND job.used_bytes > heap.bytes)
		SELECT command, max(bytes), max(heap_bytes), count(DISTINCT run_id) FROM one
		WHERE age <= ? AND command IN (SELECT command FROM one WHERE grown)
		GROUP BY command ORDER BY command`
	return scan(ctx, s, "read what jobs reached", query, append(args, latest), func(r *Reached) []any {
		return []any{&r.Command, &r.Bytes, &r.HeapBytes, &r.Runs}
	}, func(r *Reached) error { return do(*r) })
}

// KernelTime is how long a job that ended ok was in kernels of one shape.
type KernelTime struct {
	Run     int64
	Job     int
	GPU     string
	Command string
	// Device has the limits of its SMs.
	Device results.Device
	// Kernel has the shape; of a simulated run it stands for all kernels, and has none.
	Kernel results.Kernel
	S      float64 // summed over the launches
}

// EachKernelTime calls do with the time in kernels of each job that EachPast has, by run, job and
// shape, as far as kernels were recorded.
func (s *Store) EachKernelTime(ctx context.Context, f Filter, commands []string, do func(KernelTime) error) error {
	chosen, args := f.jobs(commands)
	query := fmt.Sprintf(`SELECT run.id, job.job_index, device.name, job.command, device.sms, device.warps_per_sm, device.blocks_per_sm,
			k.grid, k.block, k.registers, k.static_shared_bytes, k.dynamic_shared_bytes, sum(coalesce(l.busy_s, l.end_s - l.start_s))
		FROM run JOIN job ON job.run_id = run.id
			JOIN device ON device.run_id = job.run_id AND device.device_index = job.device_index
			JOIN %s l ON l.run_id = job.run_id AND l.job_index = job.job_index
			JOIN %s k ON k.run_id = l.run_id AND k.shape_id = l.shape_id
		WHERE %s AND job.outcome = 'ok' AND job.devices IS NULL
		GROUP BY run.id, job.job_index, k.shape_id`, launches.table, shapes.table, chosen)
	return scan(ctx, s, "read the time in kernels", query, args, func(t *KernelTime) []any {
		d, k := &t.Device, &t.Kernel
		return []any{&t.Run, &t.Job, &t.GPU, &t.Command, &d.SMs, &d.WarpsPerSM, &d.BlocksPerSM,
			&k.Grid, &k.Block, count{n: &k.Registers}, count{n: &k.StaticSharedBytes}, count{n: &k.DynamicSharedBytes}, &t.S}
	}, func(t *KernelTime) error { return do(*t) })
}

// jobs returns a condition on the tables run, job and device: jobs of these commands of the selected
// runs, on the GPUs that the filter names.
func (f Filter) jobs(commands []string) (condition string, args []any) {
	condition, args = f.where()
	condition = "run.id IN (SELECT id FROM run WHERE " + condition + ")"
	if commands != nil {
		condition += " AND job.command IN (SELECT value FROM json_each(?))"
		args = append(args, jsonTexts(commands))
	}
	if len(f.GPUs) > 0 {
		condition += " AND device.name IN (SELECT value FROM json_each(?))"
		args = append(args, jsonTexts(f.GPUs))
	}
	return condition, args
}

// FirstOfSweep returns the number of the sweep's first run; 0 if it has none yet.
func (s *Store) FirstOfSweep(ctx context.Context, sweep int64) (run int64, err error) {
	found, err := collect(ctx, s, fmt.Sprintf("find the first run of sweep %d", sweep), "SELECT ifnull(min(id), 0) FROM run WHERE sweep_id = ?", []any{sweep},
		func(id *int64) []any { return []any{id} })
	if err != nil {
		return 0, err
	}
	return found[0], nil
}
