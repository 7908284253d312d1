package slurmsweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurm"
	"github.com/caserun/caserun/runner/sweep"
)

// Proposal is what Start would submit.
type Proposal struct {
	mode      results.Mode
	standings []sweep.Standing // of the parts that are not complete
	of        int              // parts of the plan
	calls     []slurm.Call
	note      string // why the calls may be others, or empty
}

// Propose is Start without its effects. Where Slurm is not, it cannot know how large an array may be.
func Propose(ctx context.Context, db *store.Store, id int64, r Request, say harness.Say) (p Proposal, err error) {
	w, err := db.Sweep(ctx, id)
	if err != nil {
		return p, err
	}
	before, err := Latest(ctx, db, id, r.Shared)
	switch {
	case err == nil:
		say("sweep %d was submitted as %s: what its tasks have published and is not collected yet counts as left here", id, before.Name)
	case !errors.Is(err, ErrNone):
		return p, err
	}
	s, a, standings, err := prepare(ctx, db, w, r, "xxxxxx")
	if err != nil {
		return p, err
	}
	p = Proposal{mode: w.Mode, standings: standings, of: s.Of}
	size, err := slurm.MaxArraySize(ctx)
	if err != nil {
		size, p.note = a.Tasks, fmt.Sprintf("how many tasks the cluster takes in one array is not known: %v", err)
	}
	p.calls, err = a.Calls(size)
	return p, err
}

// Rehearse calls do with a new store that has the selected runs of db, which may be nil. The store is gone afterwards.
func Rehearse(ctx context.Context, db *store.Store, f store.Filter, do func(*store.Store) error) (err error) {
	local, err := scratch.MakeLocal("plan")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Remove()) }()
	file := filepath.Join(local.Path(), "plan.db")
	if db != nil {
		if err := db.CopyRuns(ctx, file, f); err != nil {
			return err
		}
	}
	own, err := harness.OpenStore(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	return do(own)
}

// Table shows the tasks.
func (p Proposal) Table() *report.Table {
	t := &report.Table{Title: "plan for Slurm", Columns: []report.Column{{Name: "task"}, {Name: "part"}, {Name: "blocks"}, {Name: "runs"},
		{Name: "runs_done", Heading: "done"}, {Name: "left", Unit: report.Seconds}}}
	if p.mode == results.Simulated {
		t.Title = "SIMULATED " + t.Title
	}
	for i, s := range p.standings {
		t.Add(i+1, s.Part.String(), s.Blocks, s.Runs, s.Done, s.LeftS)
	}
	t.Say(fmt.Sprintf("tasks: %d; parts of the plan: %d; calls of sbatch: %d, with xxxxxx for what chance will give; nothing is submitted", len(p.standings), p.of, len(p.calls)))
	if p.note != "" {
		t.Say(p.note)
	}
	return t
}

// WriteCalls writes the calls of sbatch as a shell takes them.
func (p Proposal) WriteCalls(w io.Writer) error {
	for _, call := range p.calls {
		if call.Waits {
			call.Command = append(call.Command, slurm.After("JOB")) // of the call before
		}
		if _, err := fmt.Fprintf(w, "\n%s <<'END'\n%sEND\n", shellLine(call.Command), call.Script); err != nil {
			return err
		}
	}
	return nil
}

// shellLine is a command as a shell takes it.
func shellLine(command []string) string {
	var words []string
	for _, w := range command {
		if !plainWord.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

var plainWord = regexp.MustCompile(`^[\w./=:@%+,-]+$`)
