package sim

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/schedulers"
)

// rankOf names a process.
type rankOf struct{ job, rank int32 }

func (p *process) key() rankOf { return rankOf{int32(p.index), int32(p.rank)} }

// processesOf are the processes of a job that run, by rank.
func (x *Executor) processesOf(job int) iter.Seq[*process] {
	return func(yield func(*process) bool) {
		for rank := range x.job(job).Processes() {
			if p := x.procs[rankOf{int32(job), int32(rank)}]; p != nil && !yield(p) {
				return
			}
		}
	}
}

// messageBytesPerS is how fast a core copies a message from one process of the node to another.
const messageBytesPerS = 10e9

// group is the processes of a job of several ranks.
type group struct {
	ranks  []*process
	open   int            // that have not ended
	failed bool           // one of them has
	tasks  int            // that its ranks began
	come   []*process     // to the barrier
	mail   map[[2]int]int // messages that one rank has sent and another has not got
	awaits map[int]int    // by rank: from which rank it waits for a message
}

// startRanks starts the processes of a job together.
func (x *Executor) startRanks(job int, devices []int) {
	g := &group{mail: map[[2]int]int{}, awaits: map[int]int{}}
	for rank := range x.job(job).Processes() {
		p := x.newProcess(job, rank, devices)
		p.group = g
		g.ranks = append(g.ranks, p)
		x.procs[p.key()] = p
	}
	g.open = len(g.ranks)
	x.at(x.now, func() {
		if g.failed { // it was stopped before
			return
		}
		x.post(runner.JobStarted{Job: job})
		for _, p := range g.ranks {
			x.post(runner.RankStarted{Job: job, Rank: p.rank})
			x.post(runner.RankJoined{Process: p.process(), Rank: p.rank})
		}
		for _, p := range g.ranks {
			p.todo = p.plan()
			p.proceed()
		}
	})
}

// ended takes in that a rank has ended. The first that fails ends the others.
func (g *group) ended(p *process, e runner.Exit) {
	first := e.Failed() && !g.failed
	g.failed = g.failed || first
	g.open--
	p.x.at(p.x.now, func() { p.x.post(runner.RankEnded{Job: p.index, Rank: p.rank, Exit: e}) })
	if first {
		for _, other := range g.ranks {
			other.exit(runner.Exit{Signal: new("SIGKILL")})
		}
	}
	switch {
	case g.open > 0 && !g.failed: // the end of the job gives back what a failed one leaves
		p.x.at(p.x.now, func() { p.x.post(runner.ProcessGone{Process: p.process(), SaidBye: true}) })
	case g.open == 0 && (first || !g.failed):
		p.x.at(p.x.now, func() { p.x.post(runner.JobEnded{Job: p.index}) })
	}
}

// messages appends what a rank does for a message: it sends to each rank, and then waits for one from each.
func (p *process) messages(steps []step, s *profiles.Step) []step {
	to, from := s.Sends(p.rank, p.job.Processes())
	for _, other := range to {
		sends := p.on(p.x.config.Node.first(), s)
		sends.peer = int32(other)
		steps = append(steps, sends)
	}
	for _, other := range from {
		steps = append(steps, step{Step: s, gets: true, peer: int32(other)})
	}
	return steps
}

// meets does a step for which ranks meet. It reports whether the process goes on at once.
func (p *process) meets(s *step) bool {
	g := p.group
	switch {
	case g == nil: // nobody else has to come
	case s.Kind == profiles.Barrier:
		g.come = append(g.come, p)
		if len(g.come) < len(g.ranks) {
			return false
		}
		for _, other := range g.come[:len(g.come)-1] {
			p.x.at(p.x.now, other.proceed)
		}
		g.come = nil
	case s.gets:
		way := [2]int{int(s.peer), p.rank}
		if g.mail[way] == 0 {
			g.awaits[p.rank] = way[0]
			return false
		}
		g.mail[way]--
	default:
		to := int(s.peer)
		p.do(s, func() {
			g.deliver(p, to)
			p.proceed()
		})
		return false
	}
	return true
}

// deliver brings a message of a rank to another.
func (g *group) deliver(from *process, to int) {
	if awaited, waits := g.awaits[to]; waits && awaited == from.rank {
		delete(g.awaits, to)
		from.x.at(from.x.now, g.ranks[to].proceed)
		return
	}
	g.mail[[2]int{from.rank, to}]++
}

// isStuck tells the batch that nothing happens any more because ranks wait for each other, or kernels never end, if that is so.
func (x *Executor) isStuck() bool {
	if x.endEndless() {
		return true
	}
	var whys []string
	for job := range x.kindOf {
		for p := range x.processesOf(job) {
			if p.group != nil {
				whys = append(whys, p.group.waiting(x.title(job))...)
			}
			break
		}
	}
	if len(whys) == 0 {
		return false
	}
	x.post(runner.Stuck{Ranks: strings.Join(whys, "; ")})
	return true
}

// title is a job's number and name, for texts.
func (x *Executor) title(job int) string {
	number := job
	if x.config.Number != nil {
		number = x.config.Number(job)
	}
	return fmt.Sprintf("job %d (%s)", number, x.job(job).Name)
}

// waiting says which ranks wait for others.
func (g *group) waiting(job string) (whys []string) {
	if len(g.come) > 0 {
		var ranks []int
		for _, p := range g.come {
			ranks = append(ranks, p.rank)
		}
		slices.Sort(ranks)
		whys = append(whys, fmt.Sprintf("%s of %s at a barrier of %d", runner.Ranks(ranks), job, len(g.ranks)))
	}
	for rank := range g.ranks {
		if from, waits := g.awaits[rank]; waits {
			whys = append(whys, fmt.Sprintf("rank %d of %s for a message of rank %d", rank, job, from))
		}
	}
	return whys
}

// process names p for the scheduler.
func (p *process) process() schedulers.Process {
	return schedulers.Process{Job: schedulers.JobID(p.index), Serial: p.rank}
}
