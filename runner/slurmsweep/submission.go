// Package slurmsweep spreads a sweep over the nodes of a Slurm cluster: it submits the parts of the sweep as tasks of
// an array job, does a part in a task, and brings together what the tasks publish.
package slurmsweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/sweep"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/strictjson"
)

// Request is what is asked of Slurm for a sweep.
type Request struct {
	Array   slurm.Array   // what is asked of Slurm; Submit fills in the name, the tasks and the command
	Shared  string        // directory that all nodes share
	LeastS  float64       // seconds that a part takes on average, by the estimates, if Slurm gives a task as long
	Publish time.Duration // between a task's copies of its store
	AtOnce  int           // runs of a task at once
	Program string        // this program, where the nodes find it
}

// Submission is an array job that was submitted for a sweep. A sweep may have several, one after the other.
type Submission struct {
	Number  int           `json:"number"` // from 1
	Name    string        `json:"name"`   // of the slurm.Array
	Of      int           `json:"of"`     // into how many parts the plan is cut; the same for all submissions of a sweep
	Parts   []int         `json:"parts"`  // of the tasks in their order
	Publish time.Duration `json:"publish_ns"`
	AtOnce  int           `json:"at_once"`

	Dir string `json:"-"` // of the sweep, with this file, what the tasks publish, their logs and their runs' outputs
}

// ErrNone is that a sweep was never submitted.
var ErrNone = errors.New("it was not submitted to Slurm: caserun sweep --slurm does that")

// dirOf is the directory of a sweep in the shared one.
func dirOf(ctx context.Context, db *store.Store, id int64, shared string) (dir, uid string, err error) {
	if uid, err = db.SweepUID(ctx, id); err != nil {
		return "", "", err
	}
	dir, err = filepath.Abs(filepath.Join(shared, uid))
	return dir, uid, err
}

// hold keeps other programs from submitting the sweep until release, from before it is asked whether tasks are left to
// after they are in the queue. Where the shared directory's file system has no locks, nothing is locked.
func hold(ctx context.Context, db *store.Store, id int64, shared string) (release func() error, err error) {
	dir, _, err := dirOf(ctx, db, id, shared)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("submit sweep %d: %w", id, err)
	}
	// NFS locks only what may be written. A link is not followed, because it would make a file elsewhere.
	f, err := os.OpenFile(filepath.Join(dir, "submit.lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, fmt.Errorf("submit sweep %d: %w", id, err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("sweep %d in %s: %w", id, dir, errSubmitting), f.Close())
	case err != nil && !errors.Is(err, unix.ENOLCK) && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENOSYS):
		return nil, errors.Join(fmt.Errorf("submit sweep %d: lock %s: %w", id, f.Name(), err), f.Close())
	}
	return f.Close, nil
}

var errSubmitting = errors.New("another program submits the sweep now: wait for it")

// Latest returns the latest submission of a sweep. The error matches ErrNone if there is none.
func Latest(ctx context.Context, db *store.Store, id int64, shared string) (Submission, error) {
	dir, _, err := dirOf(ctx, db, id, shared)
	if err != nil {
		return Submission{}, err
	}
	latest := 0
	for { // numbers have no gaps
		_, err := os.Stat(submissionFile(dir, latest+1))
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return Submission{}, fmt.Errorf("sweep %d: %w", id, err)
		}
		latest++
	}
	if latest == 0 {
		return Submission{}, fmt.Errorf("sweep %d in %s: %w", id, shared, ErrNone)
	}
	return readSubmission(dir, latest)
}

func submissionFile(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("submission-%d.json", number))
}

// largestSubmission has far more parts than Slurm allows tasks.
const largestSubmission = 16 << 20

// readSubmission reads a submission from a sweep's directory.
func readSubmission(dir string, number int) (Submission, error) {
	s := Submission{Dir: dir}
	text, err := userfile.Read(context.Background(), submissionFile(dir, number), largestSubmission)
	if err != nil {
		return s, fmt.Errorf("submission %d: %w", number, err)
	}
	err = strictjson.Plainly(json.Unmarshal(text, &s))
	if err == nil {
		err = strictjson.CheckKeys(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("submission %d: %s: %w: remove this file once squeue shows no task of the sweep", number, submissionFile(dir, number), err)
	}
	return s, nil
}

// logs is the directory of the tasks' logs.
func (s Submission) logs() string { return filepath.Join(s.Dir, "logs") }

// tasks are the tasks as Slurm knows them, by their parts. Slurm forgets tasks some time after their end.
func (s Submission) tasks(ctx context.Context) (map[int]slurm.Task, error) {
	tasks, err := slurm.List(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	out := make(map[int]slurm.Task, len(tasks))
	for _, t := range tasks {
		if t.Number >= 1 && t.Number <= len(s.Parts) {
			out[s.Parts[t.Number-1]] = t
		}
	}
	return out, nil
}

// left reports how many of the submission's tasks may still run.
func (s Submission) left(ctx context.Context) (int, error) {
	tasks, err := slurm.List(ctx, s.Name)
	left := 0
	for _, t := range tasks {
		if !t.Ended() {
			left++
		}
	}
	return left, err
}

// Start returns the submission of a sweep whose tasks are in the queue, or submits what is left of the sweep. The store
// must not be open, because what earlier tasks published is merged first.
func Start(ctx context.Context, path string, id int64, r Request, say harness.Say) (s Submission, err error) {
	open := func(do func(*store.Store) error) error {
		db, err := store.OpenUpdated(path)
		if err != nil {
			return err
		}
		return errors.Join(do(db), db.Close())
	}
	var release func() error
	if err = open(func(db *store.Store) error { release, err = hold(ctx, db, id, r.Shared); return err }); err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, release()) }()
	err = open(func(db *store.Store) error { s, err = Latest(ctx, db, id, r.Shared); return err })
	switch {
	case err == nil:
		left, err := s.left(ctx)
		if err != nil {
			return s, err
		}
		if left > 0 {
			say("sweep %d: %d of its tasks are in the queue already", id, left)
			return s, nil
		}
		if err := s.gather(ctx, path, say); err != nil {
			return s, err
		}
	case !errors.Is(err, ErrNone):
		return s, err
	}
	err = open(func(db *store.Store) error {
		w, err := db.Sweep(ctx, id)
		if err != nil {
			return err
		}
		if w.Status == results.Complete {
			say("sweep %d is complete", id)
			return nil
		}
		s, err = submit(ctx, db, w, r)
		if err == nil {
			say("sweep %d: submitted as %s: a task for each of %d parts, of %d; logs are in %s", id, s.Name, len(s.Parts), s.Of, s.logs())
		}
		return err
	})
	return s, err
}

// submit submits the parts of a sweep that are not complete in the store, while the caller holds the sweep. All that was
// published for the sweep before must have been merged. A later submission of the sweep has the same parts.
func submit(ctx context.Context, db *store.Store, w results.Sweep, r Request) (Submission, error) {
	// The same simulated sweep in two stores has one uid.
	s, a, _, err := prepare(ctx, db, w, r, fmt.Sprintf("%06x", rand.Uint32N(1<<24)))
	if err != nil {
		return s, err
	}
	if err := os.MkdirAll(a.Logs, 0o777); err != nil {
		return s, fmt.Errorf("submit sweep %d: %w", w.ID, err)
	}
	if err := publishPlan(ctx, db, w.ID, s.Dir); err != nil {
		return s, err
	}
	if err := s.write(); err != nil {
		return s, err
	}
	if _, err = a.Submit(ctx); err != nil {
		return s, errors.Join(err, os.Remove(submissionFile(s.Dir, s.Number)))
	}
	return s, nil
}

// prepare is the submission and the array for the parts of a sweep that are not complete, and how far these are. mark
// tells the submission's name from those of others.
func prepare(ctx context.Context, db *store.Store, w results.Sweep, r Request, mark string) (s Submission, a slurm.Array, left []sweep.Standing, err error) {
	dir, uid, err := dirOf(ctx, db, w.ID, r.Shared)
	if err != nil {
		return s, a, nil, err
	}
	s = Submission{Number: 1, Publish: r.Publish, AtOnce: r.AtOnce, Dir: dir}
	before, err := Latest(ctx, db, w.ID, r.Shared)
	switch {
	case err == nil:
		s.Number, s.Of = before.Number+1, before.Of
	case !errors.Is(err, ErrNone):
		return s, a, nil, err
	default:
		if s.Of, err = cut(ctx, db, w, r.partS()); err != nil {
			return s, a, nil, err
		}
	}
	standings, err := sweep.Standings(ctx, db, w, s.Of)
	if err != nil {
		return s, a, nil, err
	}
	for _, st := range standings[:s.Of] {
		if st.Done < st.Runs {
			s.Parts = append(s.Parts, st.Part.K)
			left = append(left, st)
		}
	}
	if len(s.Parts) == 0 {
		return s, a, nil, fmt.Errorf("sweep %d: all parts are complete", w.ID)
	}
	a = r.Array
	s.Name = fmt.Sprintf("caserun-%.12s-%d-%s", uid, s.Number, mark)
	a.Name, a.Tasks, a.Logs = s.Name, len(s.Parts), s.logs()
	a.Command = []string{r.Program, "sweep", "task", dir, strconv.Itoa(s.Number), slurm.TaskNumber}
	return s, a, left, nil
}

// write makes the submission's file, which must not exist, whole or not at all.
func (s Submission) write() (err error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("submit: %w", err)
		}
	}()
	f, err := os.CreateTemp(s.Dir, "submission-*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	err = os.Link(f.Name(), submissionFile(s.Dir, s.Number))
	if errors.Is(err, fs.ErrExist) { // where the directory cannot be locked
		return fmt.Errorf("%s: %w", s.Dir, errSubmitting)
	}
	return err
}

// partS is how many seconds a part should take: LeastS, unless Slurm gives a task less.
func (r Request) partS() float64 {
	// Slurm's warning may be a minute early.
	if given := (r.Array.Time - slurm.Warning - time.Minute).Seconds(); r.Array.Time > 0 && given > 0 {
		return min(r.LeastS, given)
	}
	return r.LeastS
}

// cut is into how many parts a plan is cut.
func cut(ctx context.Context, db *store.Store, w results.Sweep, partS float64) (int, error) {
	whole, err := sweep.Standings(ctx, db, w, 0)
	if err != nil {
		return 0, err
	}
	n := whole[0].LeftS / partS // on average, because blocks are not divided
	return int(min(max(math.Floor(n), 1), float64(whole[0].Blocks))), nil
}

// publishPlan publishes the plan, without runs, for tasks to begin with.
func publishPlan(ctx context.Context, db *store.Store, id int64, dir string) (err error) {
	local, err := scratch.MakeLocal("plan")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Remove()) }()
	file := filepath.Join(local.Path(), "plan.db")
	if err := db.CopyRuns(ctx, file, store.Filter{Sweep: id, IDs: []int64{-1}}); err != nil {
		return err
	}
	p, err := begin(dir, planNumber)
	if err == nil {
		_, err = p.publish(file)
	}
	return err
}

// Cancel cancels the tasks that have not ended, and returns how many these are.
func (s Submission) Cancel(ctx context.Context) (int, error) { return slurm.Cancel(ctx, s.Name) }
