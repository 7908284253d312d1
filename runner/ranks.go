package runner

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/blame"
)

// A job of several ranks is that many processes, each with its children. They start together. The first that fails
// ends the others, and its outcome is the job's. Of a job on several nodes each node's batch has a part, with the ranks there.

// said is what the processes of a job, or of one rank of it, said that settles its outcome.
type said struct {
	oom     string // first report of each kind, as a line for the reader
	remedy  string // of oom
	full    bool   // oom is of a device's memory, and who has taken that was not known
	refused string
	larger  string // remedy of memory that was refused
	faults  []blame.Incident
}

// ranks are the processes of a job that has several.
type ranks struct {
	first  int // the others follow it
	all    []rank
	of     map[int]int // the rank of a process, by its serial
	failed int         // the rank that failed first, by its place in all; -1: no rank has
}

type rank struct {
	said
	record results.Rank
	exit   *Exit // nil: it has not ended
}

// newRanks returns nil for a job of one process, which no others are a part of.
func (b *Batch) newRanks(job int) *ranks {
	n, span := b.spec(job).Processes(), b.span(job)
	if n == 1 && span == nil {
		return nil
	}
	r := &ranks{all: make([]rank, n), of: map[int]int{}, failed: -1}
	if span != nil {
		r.first = span.First
	}
	for i := range r.all {
		r.all[i].record = results.Rank{Job: job, Rank: r.first + i}
	}
	return r
}

// whole is the footprint of a job that is bound as a whole: its ranks share one device, each with a context of its own. One
// context is charged beside it.
func (b *Batch) whole(spec *mixes.Job) mixes.Footprint {
	f, n := spec.Footprint, int64(spec.Processes())
	if n == 1 {
		return f
	}
	context := int64(0)
	for _, d := range b.config.Devices {
		context = max(context, d.ContextBytes)
	}
	f.Bytes = min(f.Bytes, math.MaxInt64/n-context)*n + context*(n-1)
	f.Blocks = min(f.Blocks, math.MaxUint64/uint64(n)) * uint64(n)
	return f
}

// each calls do with what is known of the job, and with what is known of the rank to which a process belongs.
func (j *job) each(serial int, do func(*said)) {
	do(&j.said)
	if j.ranks == nil {
		return
	}
	if i, known := j.ranks.of[serial]; known {
		do(&j.ranks.all[i-j.ranks.first].said)
	}
}

// ranksAtWork are the ranks that run and do not wait for the scheduler, of a job that has several.
func (j *job) ranksAtWork() (out []int) {
	if j == nil || j.ranks == nil {
		return nil
	}
	for i := range j.ranks.all {
		r := &j.ranks.all[i]
		waits := slices.ContainsFunc(j.open, func(t *task) bool {
			of, known := j.ranks.of[t.process.Serial]
			return t.asks && known && of == r.record.Rank
		})
		if r.record.StartS != nil && r.exit == nil && !waits {
			out = append(out, r.record.Rank)
		}
	}
	return out
}

// rank returns a rank of a job that has several.
func (b *Batch) rank(job, i int) (*rank, error) {
	if r := b.job(job).ranks; r != nil && i >= r.first && i < r.first+len(r.all) {
		return &r.all[i-r.first], nil
	}
	return nil, fmt.Errorf("rank %d of job %d, which has %d", i, job, b.spec(job).Processes())
}

func (e RankStarted) apply(b *Batch, now time.Duration) error {
	r, err := b.rank(e.Job, e.Rank)
	if err != nil {
		return err
	}
	r.record.PID, r.record.StartS = e.PID, new(seconds(now))
	b.command(RecordRank{r.record})
	return nil
}

func (e RankJoined) apply(b *Batch, _ time.Duration) error {
	job := int(e.Process.Job)
	_, err := b.rank(job, e.Rank)
	if err == nil {
		b.job(job).ranks.of[e.Process.Serial] = e.Rank
	}
	return err
}

func (e RankEnded) apply(b *Batch, now time.Duration) error {
	r, err := b.rank(e.Job, e.Rank)
	if err != nil {
		return err
	}
	of := b.job(e.Job).ranks
	r.exit = &e.Exit
	r.record.EndS = new(seconds(now))
	r.record.ExitStatus, r.record.Signal = e.Exit.Status, e.Exit.Signal
	r.record.UserS, r.record.SysS, r.record.MaxRSSBytes = e.Exit.UserS, e.Exit.SysS, e.Exit.MaxRSSBytes
	if e.Exit.Failed() && (of.failed < 0 || *r.record.EndS < *of.all[of.failed].record.EndS) { // one that ends earlier may be told of later
		of.failed = e.Rank - of.first
	}
	b.progress.made(now)
	b.command(RecordRank{r.record})
	return nil
}

// Failed reports whether the process did not exit with status 0.
func (e Exit) Failed() bool { return e.Err != nil || e.Status == nil || *e.Status != 0 }

// exit is the end of a job of several ranks: that of the rank that failed, with the time of all. A job that could not be
// started has e.
func (r *ranks) exit(e Exit) Exit {
	if e.Err != nil {
		return e
	}
	for i := range r.all {
		of := r.all[i].exit
		if of == nil {
			continue
		}
		if i == r.failed || i == 0 && r.failed < 0 {
			e.Status, e.Signal, e.Err, e.Hint, e.StderrTail = of.Status, of.Signal, of.Err, of.Hint, of.StderrTail
			e.Checked, e.Wrong = of.Checked, of.Wrong
		}
		e.UserS, e.SysS = plus(e.UserS, of.UserS), plus(e.SysS, of.SysS)
		if m := of.MaxRSSBytes; m != nil && (e.MaxRSSBytes == nil || *m > *e.MaxRSSBytes) {
			e.MaxRSSBytes = m
		}
	}
	return e
}

func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return b
	}
	return new(*a + *b)
}

// outcomeOfRanks settles how each rank ended, and with them the job: as the rank that failed first, or else as the first
// that did not do its work.
func (b *Batch) outcomeOfRanks(j *job, e Exit) (results.Outcome, string) {
	if whole, why := b.outcome(j, &said{}, Exit{Status: new(0), Err: e.Err, NotStarted: e.NotStarted}); e.Err != nil || whole != results.OK {
		b.settleRanks(j, whole)
		return whole, why
	}
	b.settleRanks(j, results.OK)
	first := j.ranks.failed
	if first < 0 {
		first = max(0, slices.IndexFunc(j.ranks.all, func(r rank) bool { return r.record.Outcome != nil && *r.record.Outcome != results.OK }))
	}
	r := j.ranks.all[first].record
	if r.Outcome == nil {
		return results.OK, ""
	}
	if *r.Outcome == results.OK {
		return b.outcome(j, &j.said, e) // what no rank was known to have said
	}
	return *r.Outcome, fmt.Sprintf("rank %d: %s", r.Rank, r.Detail)
}

// endedBy is why a rank was ended when another had failed.
func endedBy(rank int) string { return fmt.Sprintf("ended because rank %d had failed", rank) }

// settleRanks gives each rank that started its outcome: that of the whole job, unless that is OK. The job says why.
func (b *Batch) settleRanks(j *job, whole results.Outcome) {
	for i := range j.ranks.all {
		r := &j.ranks.all[i]
		if r.record.StartS == nil {
			continue
		}
		outcome, detail := whole, ""
		if whole == results.Cancelled {
			detail = j.withdrawn
		}
		switch {
		case whole != results.OK:
		case r.exit == nil:
			continue
		case i != j.ranks.failed && r.exit.Failed():
			outcome, detail = results.Cancelled, endedBy(j.ranks.first+j.ranks.failed)
		default:
			outcome, detail = b.outcome(j, &r.said, *r.exit)
		}
		r.record.Outcome, r.record.Detail = shared(outcome), detail
		b.command(RecordRank{r.record})
	}
}
