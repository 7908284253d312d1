package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/policies"
)

// unaccounted is what looks at the devices have shown of a job (Used).
type unaccounted struct {
	compared bool          // a look has shown a process of it
	most     int64         // bytes of its processes at one time
	noted    map[use]int64 // as the latest event says
}

// use is a process on a device.
type use struct {
	process schedulers.Process
	device  int
}

// ComparesUse reports whether what processes use can be compared with what they are charged: the scheduler knows the memory of tasks,
// and decides about it.
func ComparesUse(s policies.Scheduler) bool {
	return s.Binds == policies.BindsTask && !s.ClientsDecide
}

func (e Used) apply(b *Batch, now time.Duration) error {
	if err := b.checkDevice(e.Device); err != nil || !ComparesUse(b.config.Scheduler) {
		return err
	}
	uses, err := b.usesOfJobs(e.Uses)
	if err != nil {
		return err
	}
	ds, err := b.engine.Used(e.Device, uses, now)
	if err != nil {
		return err
	}
	for _, u := range uses {
		b.job(int(u.Process.Job)).unaccounted.compared = true
	}
	b.looked = b.looked || len(uses) > 0
	b.noteUnaccounted(e.Device, now)
	b.carryOut(ds, now)
	return nil
}

// usesOfJobs are the uses that count: of jobs that have not ended, and for jobs that are bound as a whole, the sums of their processes.
func (b *Batch) usesOfJobs(uses []engine.Use) ([]engine.Use, error) {
	out := make([]engine.Use, 0, len(uses))
	for _, u := range uses {
		i := int(u.Process.Job)
		if i < 0 || i >= len(b.records) {
			return nil, fmt.Errorf("a process of job %d uses memory: the batch has %d jobs, counted from 0", i, len(b.records))
		}
		if b.records[i].Outcome != nil {
			continue
		}
		if b.job(i).bound {
			u.Process.Serial = 0
		}
		if at := slices.IndexFunc(out, func(o engine.Use) bool { return o.Process == u.Process }); at >= 0 {
			out[at].Bytes = sum(out[at].Bytes, u.Bytes)
		} else {
			out = append(out, u)
		}
	}
	return out, nil
}

// noteUnaccounted records the processes that have clearly more on the device than they are charged, each for the first time and when
// it has grown by more than a quarter.
func (b *Batch) noteUnaccounted(device int, now time.Duration) {
	found := b.engine.Unaccounted(device)
	for _, p := range slices.SortedFunc(maps.Keys(found), byJob) {
		j, bytes := b.job(int(p.Job)), found[p]
		of := &j.unaccounted
		of.most = max(of.most, b.unaccountedOf(p.Job))
		if noted := of.noted[use{p, device}]; bytes <= max(noted+noted/4, engine.Slack(b.config.Devices[device])) {
			continue
		}
		if of.noted == nil {
			of.noted = map[use]int64{}
		}
		of.noted[use{p, device}] = bytes
		b.recordEvent(results.Event{AtS: seconds(now), Kind: results.EventUnaccounted, Job: &j.record.Index, Device: &b.indexes[device],
			Detail: fmt.Sprintf("a process uses %s of GPU %d that no call showed; it is charged to the job", size.Text(bytes), Numbered(b.config.DeviceNumber, device))})
	}
}

func byJob(a, b schedulers.Process) int {
	return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Serial, b.Serial))
}

// unaccountedOf is what processes of the job have on all devices beside what they are charged.
func (b *Batch) unaccountedOf(job schedulers.JobID) (bytes int64) {
	for i := range b.indexes {
		bytes += b.unaccountedOn(i, job)
	}
	return bytes
}

// unaccountedOn is the same on one device.
func (b *Batch) unaccountedOn(device int, job schedulers.JobID) (bytes int64) {
	for p, more := range b.engine.Unaccounted(device) {
		if p.Job == job {
			bytes += more
		}
	}
	return bytes
}

// bytes is what the record says; nil: it was never compared.
func (u *unaccounted) bytes() *int64 {
	if !u.compared {
		return nil
	}
	return new(u.most)
}

// nameHog says of a job that ends who has taken the memory that it is out of, if a look has shown that since.
func (b *Batch) nameHog(j *job) {
	name := func(s *said) {
		if !s.full || j.record.Device == nil {
			return
		}
		if hog := b.hog(*j.record.Device); hog != "" {
			s.remedy = "; " + hog
		}
	}
	name(&j.said)
	if j.ranks != nil {
		for i := range j.ranks.all {
			name(&j.ranks.all[i].said)
		}
	}
}

// hog says which job has most on the device beside what it is charged, and what all others have; "": no job has any.
func (b *Batch) hog(device int) string {
	sums, all := map[int]int64{}, int64(0)
	for p, bytes := range b.engine.Unaccounted(device) {
		sums[int(p.Job)] += bytes
		all += bytes
	}
	worst := -1
	for i, bytes := range sums {
		if worst < 0 || bytes > sums[worst] || bytes == sums[worst] && i < worst {
			worst = i
		}
	}
	if worst < 0 {
		return ""
	}
	others := ""
	if rest := all - sums[worst]; rest > 0 {
		others = ", and other jobs " + size.Text(rest)
	}
	return fmt.Sprintf("%s uses %s there that no call showed%s", b.title(worst), size.Text(sums[worst]), others)
}
