package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
)

// progress is when something last happened that the scheduler hears of: a request, an
// answer, a release, the start or end of a job.
type progress struct {
	last  time.Duration
	said  time.Duration // how long the lack of progress had lasted when it was last told; 0: not yet
	check time.Duration // when Tick checks next; 0: no task has waited since the last check
}

func (p *progress) made(now time.Duration) { p.last, p.said = now, 0 }

// patience is how many times longer nothing may happen while a job runs that does not wait,
// because that job may be at work.
const patience = 10

// lookForProgress has Tick check whether the batch makes progress, because a task waits.
func (b *Batch) lookForProgress(now time.Duration) {
	if b.config.NoProgressAfter > 0 && b.progress.check == 0 {
		b.progress.check = now + b.config.NoProgressAfter
		b.command(WakeAt{b.progress.check})
	}
}

// watchProgress records that the batch makes no progress. It does so after NoProgressAfter if
// all jobs that run wait, and after a longer time if a job does not wait. It records that
// again each time the lack of progress has lasted twice as long.
func (b *Batch) watchProgress(now time.Duration) {
	if b.progress.check == 0 || now < b.progress.check {
		return
	}
	b.progress.check = 0
	running, waiting, works := 0, 0, false
	for _, j := range b.jobs {
		if j != nil && j.runs() {
			running++
			if j.blocked > 0 {
				waiting++
				works = works || len(j.ranksAtWork()) > 0
			}
		}
	}
	if waiting == 0 {
		return
	}
	b.lookForProgress(now)
	limit := b.config.NoProgressAfter
	if waiting < running || works {
		limit *= patience
	}
	if lasts := now - b.progress.last; !b.server.Recovering() && lasts >= max(limit, 2*b.progress.said) {
		b.progress.said = lasts
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventNoProgress, Detail: b.whoWaits(lasts, waiting, running)})
	}
}

// whoWaits says who waits for what, who holds what, and what helps.
func (b *Batch) whoWaits(lasts time.Duration, waiting, running int) string {
	waits, holds := b.standings()
	who := fmt.Sprintf("%d of the %d jobs that run wait for the scheduler", waiting, running)
	if waiting == running {
		who = "every job that runs waits for the scheduler"
	}
	var others []string
	for i, j := range b.jobs {
		if rest := j.ranksAtWork(); len(rest) > 0 && j.blocked > 0 {
			others = append(others, Ranks(rest)+" of "+b.title(i))
		}
	}
	if len(others) > 0 {
		who += ", some with a part of their ranks. The other ranks may wait for these: " + listed(others)
	}
	return fmt.Sprintf("no progress for %v: %s. Waiting: %s. Holding: %s. %s",
		lasts.Round(time.Second), who, listed(waits), listed(holds), b.remedy())
}

// standings says who waits for what, and who holds what.
func (b *Batch) standings() (waits, holds []string) {
	asked, held := map[claimant]int64{}, map[place]int64{} // in bytes
	for index, j := range b.jobs {
		if j != nil && j.bound && j.started && j.record.Outcome == nil {
			for _, device := range j.record.On() {
				held[place{claimant{index, noRank}, device}] = b.whole(j.spec).Bytes
			}
		}
	}
	for _, t := range b.tasks {
		by := b.claimant(t)
		if b.job(by.job).bound {
			continue // part of what its job holds
		}
		if t.granted {
			held[place{by, *t.record.Device}] += t.holds
		}
		if t.asks {
			asked[by] += t.asked
		}
	}
	for _, by := range slices.SortedFunc(maps.Keys(asked), claimant.compare) {
		limit := ""
		if most, limited := b.limits[by.job]; limited {
			limit = fmt.Sprintf(" (limited to %s)", size.Count(most, "device"))
		}
		waits = append(waits, fmt.Sprintf("%s for %s%s", b.named(by), size.Text(asked[by]), limit))
	}
	for _, at := range slices.SortedFunc(maps.Keys(held), place.compare) {
		holds = append(holds, fmt.Sprintf("%s %s of GPU %d", b.named(at.claimant), size.Text(held[at]), Numbered(b.config.DeviceNumber, at.device)))
	}
	return waits, holds
}

// claimant is a job, or a rank of one.
type claimant struct{ job, rank int }

// noRank is the rank of a job that has one process, and of a process that no rank is known of.
const noRank = -1

func (b *Batch) claimant(t *task) claimant {
	c := claimant{t.record.Job, noRank}
	if r := b.job(c.job).ranks; r != nil {
		if rank, known := r.of[t.process.Serial]; known {
			c.rank = rank
		}
	}
	return c
}

func (c claimant) compare(d claimant) int {
	return cmp.Or(cmp.Compare(c.job, d.job), cmp.Compare(c.rank, d.rank))
}

// named is a claimant as text.
func (b *Batch) named(c claimant) string {
	job := b.title(c.job)
	if c.rank == noRank {
		return job
	}
	return fmt.Sprintf("rank %d of %s", c.rank, job)
}

// place is a claimant's on a device.
type place struct {
	claimant
	device int
}

func (p place) compare(q place) int {
	return cmp.Or(p.claimant.compare(q.claimant), cmp.Compare(p.device, q.device))
}

// listed is the first few of the items.
func listed(items []string) string {
	const most = 8
	if len(items) == 0 {
		return "none"
	}
	return size.Few(items, most, ", ")
}

// remedy is what ends such a wait.
func (b *Batch) remedy() string {
	if limit := b.config.Scheduler.Config.WaitLimit; limit > 0 {
		return fmt.Sprintf("wait-limit=%v ends it", limit)
	}
	return fmt.Sprintf("If it lasts: interrupt the run; --sched %s:wait-limit=10m would refuse such requests, %s, and fewer --workers leave each job more memory",
		b.config.Scheduler.Name, b.timeoutRemedy())
}
