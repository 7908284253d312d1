package live

import (
	"slices"
	"sync"
	"time"
)

// Stop carries out runner.Stop.
func (x *Executor) Stop(job int) { x.stop(job, x.spares()) }

// EndClient carries out runner.EndClient. A broken server does not end the work of a client.
func (x *Executor) EndClient(job int) { x.stop(job, false) }

// stop ends a job. spares: its work is ended through the MPS server first.
func (x *Executor) stop(job int, spares bool) {
	x.clean.Add(1)
	x.mu.Lock()
	if awaits := x.awaited[job]; awaits != nil {
		awaits(errStopped)
	}
	x.mu.Unlock()
	x.spawn.do(func() { // after the job's start
		x.mu.Lock()
		ranks, grace := x.procs[job], x.config.Grace
		x.mu.Unlock()
		if x.server.HungUp(job) {
			grace = 0
		}
		go func() {
			defer x.clean.Done()
			x.stopAll(job, ranks, grace, spares)
		}()
	})
}

// stopAll stops those processes of a job that run.
func (x *Executor) stopAll(job int, ranks []*process, grace time.Duration, spares bool) {
	run := slices.DeleteFunc(slices.Clone(ranks), (*process).over) // await takes care of what the others left
	if len(run) == 0 {
		return
	}
	if spares {
		x.terminate(job, x.processesOf(job, run)...)
	}
	var all sync.WaitGroup
	for _, p := range run {
		all.Go(func() { p.stop(grace, x.killed) })
	}
	all.Wait()
}

// spares reports whether a process's work is ended through the MPS server before
// it is killed.
func (x *Executor) spares() bool { return x.config.Terminate != nil && !x.cancelled.Load() }

// terminate ends the work of processes of the job through the MPS server, if neighbours must
// be spared. It does not matter whether the processes have a probe: a job without a probe may
// be a client of MPS, and a job with a probe need not be.
func (x *Executor) terminate(job int, pids ...int) {
	if !x.spares() || len(pids) == 0 {
		return
	}
	if err := x.config.Terminate(pids...); err != nil {
		x.config.Warn("stop job %d: MPS did not end the work of all its processes: %v", x.number(job), err)
	}
}

// processesOf is the PIDs of the processes in the sessions of the job, and of its processes that are
// connected to the probe's server.
func (x *Executor) processesOf(job int, ranks []*process) []int {
	pids := x.server.PIDs(job)
	for _, s := range all() {
		if slices.ContainsFunc(ranks, func(p *process) bool { return s.session == p.pid }) && !s.ended {
			pids = append(pids, s.pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}
