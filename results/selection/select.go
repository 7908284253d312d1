// Package selection finds the runs of a store that a user names for a comparison, a gate, a table of
// the paper, a report or an export.
package selection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
)

// Help says what a side of a comparison may be.
const Help = `  12                  run 12, or if there is none, the runs with the tag 12
  sweep:3             the runs of sweep 3; latest means the last sweep
  nightly-2026-11-21  the runs with this tag; tag:latest, tag:12 and tag:sweep:x
                      are the runs with the tags latest, 12 and sweep:x
  sweep:3/case-alg3   those under one scheduler, of a sweep or a tag; parameters
                      may follow, as in latest/case-alg3:queue=fifo
  latest/fifo         those of the arm that was named fifo`

// NameError is a name that cannot mean runs or a sweep: the user must write another name.
type NameError struct{ why string }

func (e *NameError) Error() string { return e.why }

// Refuse is an error of a name, or of what names select.
func Refuse(format string, args ...any) error { return &NameError{fmt.Sprintf(format, args...)} }

func sideError(text string) error {
	return Refuse("%q: want the number of a run, sweep:N, latest, or tag:TEXT for any tag", text)
}

// Select finds the runs that text names. A number names a run or, if there is no such run, a
// tag. A tag without runs gives a side without runs. A sweep that does not exist is an error.
func Select(ctx context.Context, db *store.Store, text string) (regress.Side, error) {
	text = input.Name(text)
	side := regress.Side{Label: text}
	if IsRolling(text) {
		return side, Refuse("%q is only for --baseline of caserun regress; a tag of that name is tag:%[1]s", text)
	}
	if id, err := input.Int64(text); err == nil {
		run, err := db.Run(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNoRun) {
			return side, err
		}
		tagged, tagErr := selectTag(ctx, db, side, text)
		if err != nil || tagErr != nil {
			return tagged, tagErr
		}
		if len(tagged.Runs) > 0 {
			side.Notes = append(side.Notes, fmt.Sprintf("%s is run %[1]s here: tag:%[1]s means the runs with that tag", text))
		}
		side.Label = "run " + text
		if run.Excluded {
			side.Notes = append(side.Notes, fmt.Sprintf("run %d is excluded, and counts here because it is named", id))
		}
		return observe(ctx, db, side, store.Filter{IDs: []int64{id}, Warmups: run.Warmup, Excluded: true}, "")
	}
	if tag, explicit := strings.CutPrefix(text, "tag:"); explicit || isTag(text) {
		return selectTag(ctx, db, side, tag)
	}
	name, scheduler, under := strings.Cut(text, "/")
	if under {
		if err := checkScheduler(text, name, scheduler); err != nil {
			return side, err
		}
	}
	var sweep results.Sweep
	var err error
	if number := strings.TrimPrefix(name, "sweep:"); number == "latest" {
		sweep, err = db.LatestSweep(ctx)
		side.Label = fmt.Sprintf("sweep:%d", sweep.ID)
		if scheduler != "" {
			side.Label += "/" + scheduler
		}
	} else {
		id, parseErr := input.Int64(number)
		if parseErr != nil {
			return side, sideError(text)
		}
		sweep, err = db.Sweep(ctx, id)
	}
	if err != nil {
		return side, err
	}
	side.Notes = sweepNotes(sweep)
	return observe(ctx, db, side, store.Filter{Sweep: sweep.ID}, scheduler)
}

// selectTag takes what follows the last slash as a scheduler if no run has the whole text as its
// tag.
func selectTag(ctx context.Context, db *store.Store, side regress.Side, tag string) (regress.Side, error) {
	whole, err := observe(ctx, db, side, store.Filter{Tag: tag}, "")
	if err != nil {
		return whole, err
	}
	if at := strings.LastIndex(tag, "/"); len(whole.Runs) == 0 && at >= 0 {
		if err := checkScheduler(side.Label, tag[:at], tag[at+1:]); err != nil {
			return whole, err
		}
		whole, err = observe(ctx, db, side, store.Filter{Tag: tag[:at]}, tag[at+1:])
		if tag = tag[:at]; err != nil {
			return whole, err
		}
	}
	notes, err := tagNotes(ctx, db, tag, whole.Runs)
	whole.Notes = append(whole.Notes, notes...)
	return whole, err
}

// checkScheduler refuses an empty part of a side's scheduler.
func checkScheduler(text, runs, scheduler string) error {
	if results.HasEmptyPart(scheduler) {
		return Refuse("%q has an empty part: write %s/SCHEDULER or %[2]s/SCHEDULER:KEY=VALUE, or %[2]s alone for all schedulers", text, runs)
	}
	return nil
}

// WhyEmpty says why a side has no runs in a store, which the user called by a name, and which side may be meant.
func WhyEmpty(ctx context.Context, db *store.Store, text, where string) string {
	names, _ := db.Names(ctx) // without names, no hint is given
	hint := func(name string, known []string) string {
		if hint := near.DidYouMean("", name, known); hint != "" {
			return ": " + hint
		}
		return ""
	}
	tag, explicit := strings.CutPrefix(text, "tag:")
	_, notNumber := input.Int64(text)
	before, scheduler, under := strings.Cut(text, "/")
	slash := strings.LastIndex(tag, "/")
	switch {
	case notNumber == nil:
		return fmt.Sprintf("no run has the number or the tag %s in %s", text, where)
	case (explicit || isTag(text)) && slash >= 0 && slices.Contains(names.Tags, tag[:slash]):
		return fmt.Sprintf("no run with the tag %s is under %s in %s%s", tag[:slash], tag[slash+1:], where, hint(tag[slash+1:], append(names.Schedulers, names.Arms...)))
	case (explicit || isTag(text)) && slices.Contains(names.Tags, tag):
		return fmt.Sprintf("every run with the tag %s in %s is excluded, a warm-up or not complete (caserun store list shows excluded runs)", tag, where)
	case explicit || isTag(text):
		return fmt.Sprintf("no run has the tag %s in %s%s", tag, where, hint(tag, names.Tags))
	case under:
		return fmt.Sprintf("no run of %s is under %s in %s%s", before, scheduler, where, hint(scheduler, append(names.Schedulers, names.Arms...)))
	}
	return "it has no runs in " + where
}

// OfTag is how a side names a tag.
func OfTag(tag string) string {
	_, err := input.Int64(tag)
	if err == nil || !isTag(tag) || IsRolling(tag) || strings.HasPrefix(tag, "tag:") {
		return "tag:" + tag
	}
	return tag
}

// isTag reports whether a side that is not a number is a tag without the prefix tag:.
func isTag(text string) bool {
	return text != "latest" && !strings.HasPrefix(text, "sweep:") && !strings.HasPrefix(text, "latest/")
}

// sweepNotes are what a reader of a sweep's figures must know of the sweep.
func sweepNotes(sweep results.Sweep) (notes []string) {
	if sweep.Status != results.Complete {
		notes = append(notes, fmt.Sprintf("sweep %d is %s: some of its runs are missing", sweep.ID, store.Standing(sweep)))
	}
	if sweep.Note != "" {
		notes = append(notes, fmt.Sprintf("sweep %d: %s", sweep.ID, sweep.Note))
	}
	if sweep.Remark != "" {
		notes = append(notes, fmt.Sprintf("sweep %d: %s", sweep.ID, sweep.Remark))
	}
	return notes
}

// tagNotes are the notes of the sweeps that a tag's runs belong to. If these are several sweeps,
// a note says so.
func tagNotes(ctx context.Context, db *store.Store, tag string, runs []regress.Observation) ([]string, error) {
	sweeps, err := db.Sweeps(ctx)
	if err != nil {
		return nil, err
	}
	has := map[int64]bool{}
	alone := 0
	for _, r := range runs {
		if r.Sweep == nil {
			alone++
			continue
		}
		has[*r.Sweep] = true
	}
	var of, notes []string
	for _, s := range sweeps {
		if has[s.ID] {
			of = append(of, strconv.FormatInt(s.ID, 10))
		}
		if has[s.ID] || s.Tag == tag { // also one that was stopped before its first run
			notes = append(notes, sweepNotes(s)...)
		}
	}
	switch {
	case len(of) > 1 && alone > 0:
		notes = append(notes, fmt.Sprintf("tag %s covers sweeps %s, and runs of no sweep: %d", tag, strings.Join(of, " and "), alone))
	case len(of) > 1:
		notes = append(notes, fmt.Sprintf("tag %s covers sweeps %s", tag, strings.Join(of, " and ")))
	case len(of) == 1 && alone > 0:
		notes = append(notes, fmt.Sprintf("tag %s covers sweep %s, and runs of no sweep: %d", tag, of[0], alone))
	}
	return notes, nil
}
