package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/slurmstep"
)

// seat is what one process of a job knows of the others.
type seat struct {
	rank, ranks int             // ranks is 0 for a job that knows nothing of them
	token       string          // CASE_TOKEN
	meets       string          // the directory in which the ranks meet
	step        *slurmstep.Seat // in a step of Slurm; nil: it is in none
}

// suffix tells the names of the ranks' files apart.
func (s seat) suffix() string {
	if s.ranks <= 1 {
		return ""
	}
	return fmt.Sprintf("-rank-%d", s.rank)
}

func (s seat) environment() []string {
	if s.ranks == 0 {
		return nil
	}
	return []string{"CASE_RANK=" + strconv.Itoa(s.rank), "CASE_RANKS=" + strconv.Itoa(s.ranks), "CASE_RENDEZVOUS=" + s.meets}
}

// register returns the token of a job, which has its devices from the start, or asks for them.
func (x *Executor) register(job int, devices []int) string {
	switch {
	case x.state != "":
		return x.server.RegisterDeciding(job)
	case len(devices) > 0:
		return x.server.RegisterBound(job)
	}
	return x.server.Register(job)
}

// first is the first rank of a job here.
func (j job) first() int {
	if j.span == nil {
		return 0
	}
	return j.span.First
}

// errStopped is the end of a job that is stopped before its ranks have seats in a step.
var errStopped = errors.New("it was stopped before Slurm had started its step")

// How long Slurm may take to start a step, and when the user is told that it takes long.
const (
	stepLimit = 90 * time.Second
	stepSlow  = 10 * time.Second
)

// seatRanks calls do once the ranks of a job have their seats in a step of Slurm, or the job is stopped. What do queues for the spawner
// comes before the job's next stop.
func (x *Executor) seatRanks(job int, do func([]*slurmstep.Seat, error)) {
	of := x.job(job)
	if x.config.Desk == nil || !of.several() { // one rank meets nobody
		do(nil, nil)
		return
	}
	ctx, stop := context.WithCancelCause(context.Background())
	limit := time.AfterFunc(stepLimit, func() { stop(fmt.Errorf("its ranks have got no step of Slurm within %v", stepLimit)) })
	slow := time.AfterFunc(stepSlow, func() { x.config.Warn("job %d waits for Slurm to start the step of its ranks", x.number(job)) })
	x.mu.Lock()
	x.awaited[job] = stop
	x.mu.Unlock()
	x.clean.Go(func() {
		var seats []*slurmstep.Seat
		for i := range of.spec.Ranks {
			s, err := x.config.Desk.Await(ctx, x.number(job), of.first()+i)
			if err != nil {
				break
			}
			seats = append(seats, s)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.awaited, job)
		limit.Stop()
		slow.Stop()
		do(seats, context.Cause(ctx))
		stop(nil)
	})
}

// launchRanks starts the processes of a job. After an error it returns those that it has started.
func (x *Executor) launchRanks(job int, devices []int, seats []*slurmstep.Seat, stopped error) (started []*process, err error) {
	defer func() {
		for _, s := range seats[min(len(started), len(seats)):] {
			s.End()
		}
	}()
	if stopped != nil {
		return nil, stopped
	}
	of := x.job(job)
	all := seat{ranks: of.spec.Ranks, token: x.register(job, devices)}
	switch {
	case of.span != nil:
		all.ranks, all.meets = of.span.Of, of.span.Meets
	case all.ranks > 0:
		all.meets = x.rendezvous(job)
		if err := MakeRendezvous(all.meets); err != nil {
			return nil, err
		}
	}
	tokens := []string{all.token}
	if of.several() {
		tokens = x.server.Ranks(all.token, of.first(), of.spec.Processes())
	}
	for i, token := range tokens {
		own := all
		own.rank, own.token = of.first()+i, token
		if seats != nil {
			own.step = seats[i]
		}
		p, err := x.launch(job, devices, own)
		if err != nil && of.several() {
			err = fmt.Errorf("rank %d: %w", own.rank, err)
		}
		if err != nil {
			return started, err
		}
		started = append(started, p)
	}
	return started, nil
}

// rendezvousLimit leaves room for a name of 20 bytes in the path of a socket, which has 107 bytes.
const rendezvousLimit = 86

// rendezvous is the directory in which the ranks of a job meet.
func (x *Executor) rendezvous(job int) string { return filepath.Join(x.meeting, "r"+strconv.Itoa(job)) }

// MakeRendezvous makes a directory in which the ranks of a job meet.
func MakeRendezvous(path string) error {
	if len(path) > rendezvousLimit {
		return &failure{fmt.Errorf("the path of the ranks' rendezvous, %s, has %d bytes, and may have %d: sockets in it would not work", path, len(path), rendezvousLimit),
			"name a directory with a shorter path with TMPDIR"}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return unwritable(fmt.Errorf("make the ranks' rendezvous: %w", err))
	}
	return nil
}

func (x *Executor) leaveRendezvous(job int) {
	if of := x.job(job); of.spec.Ranks == 0 || of.span != nil {
		return
	}
	if err := os.RemoveAll(x.rendezvous(job)); err != nil {
		x.config.Warn("what the ranks of job %d left in their rendezvous stays until the end of the run: %v", x.number(job), err)
	}
}

// abort ends a job if some of its processes could not be started.
func (x *Executor) abort(job int, started []*process, err error) {
	if len(started) > 0 {
		var all sync.WaitGroup
		for _, p := range started {
			all.Go(func() {
				x.awaitExit(job, p)
				x.end(job, p)
				x.guard.forget(p)
			})
		}
		x.stopAll(job, started, 0, x.spares())
		all.Wait()
		x.awaitClients(job, started)
	}
	x.leave(job, started)
	ours := notTheJobs(err)
	if ours {
		x.fail(err)
	}
	x.post(runner.JobEnded{Job: job, Exit: runner.Exit{Err: err, NotStarted: ours}})
}

// awaitRanks waits until the ranks of a job have ended. The first that fails ends the others.
func (x *Executor) awaitRanks(job int, ranks []*process) {
	for _, p := range ranks {
		x.loop.Post(p.started, runner.RankStarted{Job: job, Rank: p.rank, PID: &p.pid})
	}
	var stop sync.Once
	var all sync.WaitGroup
	for _, p := range ranks {
		all.Go(func() {
			e := x.awaitExit(job, p)
			x.loop.Post(p.exited.Sub(x.config.Start), runner.RankEnded{Job: job, Rank: p.rank, Exit: e})
			x.end(job, p)
			x.guard.forget(p) // its session may be another's before the job ends
			if e.Failed() {
				stop.Do(func() { x.stopAll(job, ranks, x.config.Grace, x.spares()) })
			}
		})
	}
	all.Wait()
}
