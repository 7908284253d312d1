package nodes

import (
	"bytes"
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/userfile"
)

// Know completes what is known of a mix's jobs. They get the footprints of their profiles, and the set the steps files that they
// name. On a simulated node it also gets estimates for commands that were not measured; say tells of each.
func Know(ctx context.Context, o harness.Options, m *mixes.Mix, known profiles.Set, say harness.Say) (profiles.Set, error) {
	estimated, notes := known.Estimate(m.Jobs, func(file string) int { return amount(ctx, o.Data, file) })
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

// maxAmountBytes bounds a file that amount reads. A list of a million pictures has some 50 MB.
const maxAmountBytes = 64 << 20

// amount is what a file in the data directory says of a job's amount of work: the updates of a network (max_batches), or the
// lines of a list. It is 0 if the file cannot be read or says nothing.
func amount(ctx context.Context, data, file string) int {
	if !filepath.IsAbs(file) {
		file = filepath.Join(data, file)
	}
	text, err := userfile.Read(ctx, file, maxAmountBytes)
	if err != nil {
		return 0
	}
	lines := 0
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if key, value, _ := bytes.Cut(line, []byte("=")); filepath.Ext(file) == ".cfg" {
			if n, err := strconv.Atoi(string(bytes.TrimSpace(value))); err == nil && string(bytes.TrimSpace(key)) == "max_batches" {
				return n
			}
		} else if len(line) > 0 {
			lines++
		}
	}
	return lines
}
