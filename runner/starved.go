package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers/engine"
)

// StarvedAfter is how long a request waits for work without end before an event says so, beside the time in which the scheduler
// would end bursts for it.
const StarvedAfter = time.Minute

// watchStarved records the requests that have starved until now, each once. It asks for no tick, so that nothing else changes.
func (b *Batch) watchStarved(now time.Duration) {
	after := b.config.StarvedAfter
	if after == 0 || !b.config.Scheduler.Revokes || now < b.starvedCheck {
		return
	}
	b.starvedCheck = now + after/8
	for _, s := range b.engine.Starved(after, now) {
		i, d := int(s.Task.Job), s.Task.OnDevice
		if d == nil && len(b.config.Devices) == 1 {
			d = &b.indexes[0]
		}
		j := b.job(i)
		j.starved = b.whyStarved(s)
		if t := b.tasks[s.Task.ID]; t != nil {
			t.starves = true
		}
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventStarved, Job: &j.record.Index, Device: d, Detail: j.starved})
	}
}

// whyStarved says for what a request waits, who has that, and what helps.
func (b *Batch) whyStarved(s engine.Starved) string {
	who := make([]string, len(s.By))
	for i, h := range s.By {
		who[i] = fmt.Sprintf("%s has %s of GPU %d", b.title(int(h.Job)), size.Text(h.Bytes), Numbered(b.config.DeviceNumber, h.Device))
		if h.Works > 0 {
			who[i] += fmt.Sprintf(", where its kernels have run for %v without a break", h.Works.Round(time.Second))
		}
	}
	what := size.Text(s.Bytes) + " of a GPU, which do not come free"
	if s.Bytes == 0 {
		what = "its turn on a GPU, which does not come"
	}
	return fmt.Sprintf("it has waited %v for %s: %s. %s", s.Waits.Round(time.Second), what, size.Few(who, 4, "; "), b.starvedRemedy(s.By))
}

// starvedRemedy is what ends such a wait.
func (b *Batch) starvedRemedy(by []engine.Holder) string {
	scheduler := b.config.Scheduler
	works := func(h engine.Holder) bool { return h.Works > 0 }
	switch {
	case !slices.ContainsFunc(by, works):
		return "Contexts and memory that cannot move go with their jobs: fewer --workers leave each job more memory"
	case !scheduler.EndsBursts:
		return fmt.Sprintf("%s stops no kernel: mfit and amfit do, if the kernel has stop points (casecc --stop); %s", scheduler.Name, b.timeoutRemedy())
	case !slices.ContainsFunc(by, func(h engine.Holder) bool { return works(h) && h.Stops }):
		return fmt.Sprintf("%s cannot stop these kernels, because they have no stop points (casecc --stop); %s", scheduler.Name, b.timeoutRemedy())
	}
	return fmt.Sprintf("%s has stopped no kernel, because that would not be enough, or the kernel went on; %s", scheduler.Name, b.timeoutRemedy())
}

func (b *Batch) timeoutRemedy() string {
	if b.config.Timeout > 0 {
		return fmt.Sprintf("--timeout stops each job %v after its start", b.config.Timeout)
	}
	return "--timeout 1h would stop such jobs"
}
