package sim

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

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

// group is the processes of a job of several ranks on one node.
type group struct {
	*meeting
	x     *Executor // where it is
	job   int       // its number there
	first int       // its first rank; the others follow it
	count int
	ranks []*process
	open  int // that have not ended
	tasks int // that its ranks began
}

// meeting is where the ranks of a job meet, on whatever nodes they are.
type meeting struct {
	groups []*group               // by their first ranks
	of     int                    // how many ranks the job has
	come   []*process             // to the barrier
	mail   map[[2]int]int         // messages that one rank has sent and another has not got
	awaits map[int]awaitedMessage // by the rank that waits
}

type awaitedMessage struct {
	by   *process
	from int
}

func newMeeting(ranks int) *meeting {
	return &meeting{of: ranks, mail: map[[2]int]int{}, awaits: map[int]awaitedMessage{}}
}

// add makes a group of the next ranks of the job.
func (m *meeting) add(count int) *group {
	g := &group{meeting: m, count: count}
	if n := len(m.groups); n > 0 {
		g.first = m.groups[n-1].first + m.groups[n-1].count
	}
	m.groups = append(m.groups, g)
	return g
}

// nodeOf is where a rank is.
func (m *meeting) nodeOf(rank int) *Executor {
	i := slices.IndexFunc(m.groups, func(g *group) bool { return rank < g.first+g.count })
	return m.groups[i].x
}

// startRanks starts the processes of a job, or of its part on this node, together.
func (x *Executor) startRanks(g *group, devices []int) {
	g.open = g.count
	for rank := g.first; rank < g.first+g.count; rank++ {
		p := x.newProcess(g.job, rank, devices)
		p.group = g
		g.ranks = append(g.ranks, p)
		x.procs[p.key()] = p
	}
	x.at(x.now, func() {
		if g.open < g.count { // it was stopped before
			return
		}
		x.post(runner.JobStarted{Job: g.job})
		for _, p := range g.ranks {
			x.post(runner.RankStarted{Job: g.job, Rank: p.rank})
			x.post(runner.RankJoined{Process: p.process(), Rank: p.rank})
		}
		for _, p := range g.ranks {
			p.todo = p.plan()
			p.proceed()
		}
	})
}

// ended takes in that a rank has ended. The first that fails ends the others on its node.
func (g *group) ended(p *process, e runner.Exit) {
	g.open--
	x, last := p.x, g.open == 0
	x.at(x.now, func() { x.post(runner.RankEnded{Job: p.index, Rank: p.rank, Exit: e}) })
	switch {
	case last:
		x.at(x.now, func() { x.post(runner.JobEnded{Job: p.index}) })
	case e.Failed(): // the end of the job gives back what it leaves
		for _, other := range g.ranks {
			other.exit(runner.Exit{Signal: new("SIGKILL")})
		}
	default:
		x.at(x.now, func() { x.post(runner.ProcessGone{Process: p.process(), SaidBye: true}) })
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
		if len(g.come) < g.of {
			return false
		}
		all := g.come
		g.come = nil
		if len(g.groups) > 1 {
			until := p.x.now + g.latency()
			for _, other := range all {
				p.wake(other, until)
			}
			return false
		}
		for _, other := range all[:len(all)-1] {
			p.wake(other, p.x.now)
		}
	case s.gets:
		way := [2]int{int(s.peer), p.rank}
		if g.mail[way] == 0 {
			g.awaits[p.rank] = awaitedMessage{p, way[0]}
			return false
		}
		g.mail[way]--
	default:
		p.send(s)
		return false
	}
	return true
}

// latency is how long a message takes at least between the nodes of the job.
func (m *meeting) latency() (slowest time.Duration) {
	for _, g := range m.groups {
		slowest = max(slowest, g.x.config.NIC.latency())
	}
	return slowest
}

// wake has a process go on that has waited for others, on whatever node.
func (p *process) wake(other *process, at time.Duration) { p.x.have(other.x, at, other.proceed) }

// have has something be done on a node, which may be another.
func (x *Executor) have(node *Executor, at time.Duration, do func()) {
	node.at(at, do)
	if node != x {
		node.config.Woken()
	}
}

// send sends a message, and goes on then.
func (p *process) send(s *step) {
	sent := func() {
		p.group.deliver(p, int(s.peer))
		p.proceed()
	}
	to := p.group.nodeOf(int(s.peer))
	if to == p.x {
		p.do(s, sent)
		return
	}
	out, came := p.x.config.NIC.carries(s), to.config.NIC.carries(s)
	left := 2
	arrive := func() {
		if left--; left == 0 && !p.gone {
			sent()
		}
	}
	in := &activity{}
	came.work(in)
	in.done = func() { to.have(p.x, to.now, arrive) }
	p.x.have(to, p.x.now, func() { to.share(to.nicIn, in) })
	p.do(&out, arrive)
}

// deliver brings a message of a rank to another.
func (g *group) deliver(from *process, to int) {
	if awaited, waits := g.awaits[to]; waits && awaited.from == from.rank {
		delete(g.awaits, to)
		from.wake(awaited.by, from.x.now)
		return
	}
	g.mail[[2]int{from.rank, to}]++
}

// isStuck tells the batch that nothing happens any more because ranks wait for each other, or kernels never end, if that is so.
func (x *Executor) isStuck() bool {
	if x.endEndless() {
		return true
	}
	whys := x.waiting()
	if len(whys) == 0 {
		return false
	}
	x.post(runner.Stuck{Ranks: strings.Join(whys, "; ")})
	return true
}

// waiting says which ranks wait for others, of the jobs of which a process is here and none on a node before.
func (x *Executor) waiting() (whys []string) {
	for job := range x.kindOf {
		for p := range x.processesOf(job) {
			if p.group != nil && p.group.firstRunning() == p.group {
				whys = append(whys, p.group.waiting(x.title(job))...)
			}
			break
		}
	}
	return whys
}

// firstRunning is the first group of the job with a process that has not ended; nil: none has.
func (g *meeting) firstRunning() *group {
	if i := slices.IndexFunc(g.groups, func(g *group) bool { return g.open > 0 }); i >= 0 {
		return g.groups[i]
	}
	return nil
}

// title is a job's number and name, for texts.
func (x *Executor) title(job int) string {
	return runner.Title(x.number(job), x.job(job).Name)
}

// number is a job's number in the cluster.
func (x *Executor) number(job int) int {
	if x.config.Number == nil {
		return job
	}
	return x.config.Number(job)
}

// waiting says which ranks wait for others.
func (g *meeting) waiting(job string) (whys []string) {
	if len(g.come) > 0 {
		var ranks []int
		for _, p := range g.come {
			ranks = append(ranks, p.rank)
		}
		slices.Sort(ranks)
		whys = append(whys, fmt.Sprintf("%s of %s at a barrier of %d", runner.Ranks(ranks), job, g.of))
	}
	for rank := range g.of {
		if awaited, waits := g.awaits[rank]; waits {
			whys = append(whys, fmt.Sprintf("rank %d of %s for a message of rank %d", rank, job, awaited.from))
		}
	}
	return whys
}

// process names p for the scheduler.
func (p *process) process() schedulers.Process {
	return schedulers.Process{Job: schedulers.JobID(p.index), Serial: p.rank}
}
