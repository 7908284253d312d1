package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/history"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/userfile"
)

// Read reads a mix with what is known of its jobs on the node that is to run it.
func Read(ctx context.Context, o harness.Options, arg string, say harness.Say) (m mixes.Mix, known profiles.Set, err error) {
	if known, err = o.KnownProfiles(ctx); err != nil {
		return m, known, err
	}
	if m, _, err = o.ReadMix(ctx, arg, known, say); err != nil {
		return m, known, err
	}
	known, err = Know(ctx, o, &m, known, say)
	return m, known, harness.Refuse(err)
}

// Expected is what a run of a mix on its node would be told of each of the mix's commands.
func Expected(ctx context.Context, o harness.Options, arg string, db *store.Store, h history.Options, say harness.Say) (found []results.Known, m mixes.Mix, node string, err error) {
	m, known, err := Read(ctx, o, arg, say)
	if err != nil {
		return nil, m, "", err
	}
	backend, err := Open(ctx, o, say)
	if err != nil {
		return nil, m, "", err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	of, err := backend.History(known)
	if err != nil {
		return nil, m, "", err
	}
	jobs, err := history.Known(ctx, db, m.Jobs, of, h)
	if err != nil {
		return nil, m, "", err
	}
	seen := map[string]bool{}
	for i, j := range m.Jobs {
		if command := j.Command(); !seen[command] {
			seen[command] = true
			k := results.Known{Command: command}
			if jobs[i] != nil {
				k = *jobs[i]
			}
			found = append(found, k)
		}
	}
	return found, m, backend.Options().Node, nil
}

// Know completes what is known of a mix's jobs. They get the footprints of their profiles, programs that grow only on a simulated
// node, and the set the steps files that they name. On a simulated node it also gets estimates for commands that were not measured; say tells of each.
func Know(ctx context.Context, o harness.Options, m *mixes.Mix, known profiles.Set, say harness.Say) (profiles.Set, error) {
	estimated, notes := known.Estimate(m.Jobs, opener(ctx, o.Data))
	live := false
	if len(notes) > 0 || known.AnyGrows(m.Jobs) {
		node, err := Settle(ctx, o, func(string, ...any) {})
		live = err == nil && IsLive(node)
		if err == nil && !live {
			known = estimated
			tell(notes, say)
		}
	}
	m.Jobs = known.Declare(m.Jobs, live)
	known, err := known.WithSteps(ctx, m.Jobs)
	if failed := (*profiles.StepsError)(nil); errors.As(err, &failed) && m.Where(failed.Job) != "" {
		err = fmt.Errorf("%s: %w", m.Where(failed.Job), err)
	}
	return known, err
}

// tell says the first notes, and how many there are.
func tell(notes []string, say harness.Say) {
	const most = 8
	for _, note := range notes[:min(most, len(notes))] {
		say("%s", note)
	}
	if more := len(notes) - most; more > 0 {
		say("commands that were not measured alone either, and whose profiles are made in the same way: %d", more)
	}
}

// opener opens files that jobs name, relative to the jobs' directories.
func opener(ctx context.Context, data string) profiles.OpenFile {
	return func(j mixes.Job, file string) (io.ReadCloser, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(cmp.Or(j.Dir, data), file)
		}
		f, err := userfile.Open(file, 0)
		if errors.Is(err, fs.ErrNotExist) && !userfile.Absent(file) {
			return nil, fmt.Errorf("%s is a link to what does not exist: make that file, or remove the link", file)
		}
		if err != nil {
			return nil, err
		}
		return untilStopped{ctx, f}, nil
	}
}

// untilStopped is a file that is read until ctx ends.
type untilStopped struct {
	ctx context.Context
	io.ReadCloser
}

func (u untilStopped) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.ReadCloser.Read(b)
}
