package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
)

// Hints says of the sweeps of a store whether more repetitions, measured here and now, would repeat their runs.
// initial gives the text of a flag that is not given.
func Hints(ctx context.Context, db *store.Store, initial func(flag string) string) func(id int64) regress.SweepHint {
	return func(id int64) regress.SweepHint {
		w, err := db.Sweep(ctx, id)
		if err != nil {
			return regress.SweepHint{Fixed: err.Error()}
		}
		h := regress.SweepHint{}
		err = repeatable(ctx, db, w)
		if err != nil {
			h.Fixed = strings.TrimPrefix(err.Error(), fmt.Sprintf("resume sweep %d: ", id))
		}
		if !errors.Is(err, fs.ErrNotExist) { // without its files nothing can be measured anew
			h.Again = again(w, initial)
		}
		return h
	}
}

// repeatable says why further runs of a sweep would not repeat those that it has.
func repeatable(ctx context.Context, db *store.Store, w results.Sweep) error {
	this, err := thisProgram()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	runs, err := db.Runs(ctx, store.Filter{Sweep: w.ID, Status: results.Complete})
	if err != nil {
		return err
	}
	for _, r := range runs {
		switch p := r.Provenance; {
		case p.Version != this.Version || p.Revision != this.Revision:
			return fmt.Errorf("its runs are of another build (%s, and this is %s)", buildName(p.Version, p.Revision), buildName(this.Version, this.Revision))
		case w.Mode == results.Live && p.Host != host:
			return fmt.Errorf("its runs are of another machine (%s, and this is %s)", p.Host, host)
		}
	}
	plan, note, err := Resume(ctx, w)
	switch {
	case err != nil:
		return err
	case note != "":
		return errors.New("another build planned it")
	}
	return plan.SameSize(ctx, db, w.ID)
}

func buildName(version, revision string) string {
	return fmt.Sprintf("%s, revision %.12s", version, revision)
}

// again is the command that measures what a sweep did once more, without repetitions, tag and store; empty if the
// sweep cannot be read.
func again(w results.Sweep, initial func(flag string) string) string {
	spec, err := results.ReadSpec(w)
	if err != nil {
		return ""
	}
	settings := map[string]any{}
	d := json.NewDecoder(strings.NewReader(string(spec.Settings)))
	d.UseNumber()
	if d.Decode(&settings) != nil {
		return ""
	}
	words := []string{"caserun", "sweep", "--mixes", input.ShellWord(strings.Join(spec.Args(), ",")), "--scheds", input.ShellWord(strings.Join(spec.Scheds, ","))}
	if probes := asFlag("probes", spec.Probes); probes != asFlag("probes", []results.Probe{results.Lazy}) {
		words = append(words, probes)
	}
	if initialWarmups := map[results.Mode]int{results.Live: 1}[w.Mode]; spec.Warmups != initialWarmups {
		words = append(words, fmt.Sprintf("--warmups %d", spec.Warmups))
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value := settings[key]
		if text := fmt.Sprint(value); key == "tag" || text == initial(key) || text == "" || text == "0s" {
			continue
		}
		if text, ok := value.(string); ok {
			value = input.ShellWord(text)
		}
		words = append(words, asFlag(key, value))
	}
	return strings.Join(words, " ")
}
