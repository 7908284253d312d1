package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// quiet is a time in which nothing happens that the scheduler hears of: no request, no
// answer, no release, no start or end of a job.
type quiet struct {
	since time.Duration
	said  time.Duration // how long it had lasted when it was last told; 0: not yet
	look  time.Duration // when Tick looks next; 0: nobody has waited since it last did
}

// patience is how many times longer nothing may happen where a job runs that does not
// wait: it may be at work.
const patience = 10

// stir notes that something has happened.
func (b *Batch) stir(now time.Duration) { b.quiet.since, b.quiet.said = now, 0 }

// watch has Tick look whether the batch makes progress, as somebody waits.
func (b *Batch) watch(now time.Duration) {
	if b.config.QuietAfter > 0 && b.quiet.look == 0 {
		b.quiet.look = now + b.config.QuietAfter
		b.executor.WakeAt(b.quiet.look)
	}
}

// tellQuiet records that the batch makes no progress, where that is so: after QuietAfter
// if all jobs that run wait, and later if one does not; then each time it has lasted
// twice as long.
func (b *Batch) tellQuiet(now time.Duration) {
	if b.quiet.look == 0 || now < b.quiet.look {
		return
	}
	b.quiet.look = 0
	running, waiting := 0, 0
	for _, j := range b.jobs {
		if j.started && j.exited == nil && j.record.Outcome == nil {
			running++
			if j.blocked > 0 {
				waiting++
			}
		}
	}
	if waiting == 0 {
		return
	}
	b.watch(now)
	limit := b.config.QuietAfter
	if waiting < running {
		limit *= patience
	}
	if lasts := now - b.quiet.since; !b.healing && lasts >= max(limit, 2*b.quiet.said) {
		b.quiet.said = lasts
		b.recorder.Event(results.Event{AtS: seconds(now), Kind: results.EventNoProgress, Detail: b.standstill(lasts, waiting, running)})
	}
}

// standstill says who waits for what, who holds what, and what helps.
func (b *Batch) standstill(lasts time.Duration, waiting, running int) string {
	asked, held := map[int]int64{}, map[place]int64{} // by job, in bytes
	for index, j := range b.jobs {
		if j.binding != 0 && j.started && j.record.Outcome == nil {
			held[place{index, *j.record.Device}] = j.spec.Footprint.Bytes
		}
	}
	for _, t := range b.tasks {
		if b.jobs[t.job].binding != 0 {
			continue // part of what its job holds
		}
		if t.granted {
			held[place{t.job, *t.record.Device}] += t.holds
		}
		if t.asks {
			asked[t.job] += t.asked
		}
	}
	var waits, holds []string
	for _, job := range slices.Sorted(maps.Keys(asked)) {
		waits = append(waits, fmt.Sprintf("job %d (%s) for %s", job, b.jobs[job].record.Name, mixes.FormatBytes(asked[job])))
	}
	for _, at := range slices.SortedFunc(maps.Keys(held), place.compare) {
		holds = append(holds, fmt.Sprintf("job %d (%s) %s of GPU %d", at.job, b.jobs[at.job].record.Name, mixes.FormatBytes(held[at]), at.device))
	}
	who := fmt.Sprintf("%d of the %d jobs that run wait for the scheduler", waiting, running)
	if waiting == running {
		who = "every job that runs waits for the scheduler"
	}
	return fmt.Sprintf("no progress for %v: %s. Waiting: %s. Holding: %s. %s",
		lasts.Round(time.Second), who, listed(waits), listed(holds), b.remedy())
}

// place is a job's on a device.
type place struct{ job, device int }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.job, q.job), cmp.Compare(p.device, q.device))
}

// listed is the first few of the items.
func listed(items []string) string {
	const most = 8
	if len(items) == 0 {
		return "nobody"
	}
	if more := len(items) - most; more > 0 {
		items = append(slices.Clone(items[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(items, ", ")
}

// remedy is what ends such a wait.
func (b *Batch) remedy() string {
	if limit := b.config.Scheduler.Config.WaitLimit; limit > 0 {
		return fmt.Sprintf("wait-limit=%v ends it", limit)
	}
	stops := "--timeout 1h would stop such jobs"
	if b.config.Timeout > 0 {
		stops = fmt.Sprintf("--timeout stops each job %v after its start", b.config.Timeout)
	}
	return fmt.Sprintf("If it lasts: interrupt the run; --sched %s:wait-limit=10m would refuse such requests, %s, and fewer --workers leave each job more memory",
		b.config.Scheduler.Name, stops)
}
