package nodes

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile"
)

// Know completes what is known of a mix's jobs. They get the footprints of their profiles, and the set the steps files that they
// name. On a simulated node it also gets estimates for commands that were not measured; say tells of each.
func Know(ctx context.Context, o harness.Options, m *mixes.Mix, known profiles.Set, say harness.Say) (profiles.Set, error) {
	estimated, notes := known.Estimate(m.Jobs, reader(ctx, o.Data))
	if len(notes) > 0 {
		node, err := Settle(o, func(string, ...any) {})
		if err == nil && strings.HasPrefix(node, simulatedPrefix) {
			known = estimated
			tell(notes, say)
		}
	}
	m.Jobs = known.Declare(m.Jobs)
	return known.WithSteps(ctx, m.Jobs)
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

// reader reads files that jobs name, relative to the jobs' directories.
func reader(ctx context.Context, data string) profiles.ReadFile {
	return func(j mixes.Job, file string, most int64) ([]byte, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(cmp.Or(j.Dir, data), file)
		}
		f, err := userfile.Open(file, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, most))
		return text, errors.Join(err, context.Cause(ctx))
	}
}
