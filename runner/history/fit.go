package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/runner/profiles"
)

// Fit is profiles that are fitted to the host of live runs.
type Fit struct {
	Profiles []profiles.Profile
	Notes    []string // what the user should know of them
	Nothing  string   // why there are none
}

// FitProfiles fits profiles to the host of a side's live runs under sa.
func FitProfiles(ctx context.Context, db *store.Store, side regress.Side, known profiles.Set) (Fit, error) {
	runs := toFit(side.Runs)
	if len(runs) == 0 {
		return Fit{Nothing: fmt.Sprintf("%s has no complete live run under sa: caserun sweep --mixes MIXES --scheds sa makes some", side.Label)}, nil
	}
	seconds, failed, err := durations(ctx, db, runs)
	if err != nil {
		return Fit{}, err
	}
	if len(seconds) == 0 {
		return Fit{Nothing: fmt.Sprintf("no job of %s ended ok: %s", side.Label, strings.Join(failed, ", "))}, nil
	}
	fitted, missing, long := known.Fitted(gpuOf(runs[0]), seconds)
	f := Fit{Profiles: fitted.All()}
	if len(f.Profiles) == 0 {
		f.Nothing = fmt.Sprintf("no job of %s that ended ok has a profile to fit: measure them with caserun profile, and name its file with --profiles: %s", side.Label, strings.Join(missing, ", "))
		return f, nil
	}
	for _, n := range []struct {
		says     string
		commands []string
	}{
		{"left out, because they have no profile to fit (caserun profile measures one, and --profiles names it)", missing},
		{"left out, because they never ended ok in these runs", failed},
		{"the fitted profiles of these jobs are too long, because the copies and kernels in their profiles last longer than the jobs did", long},
	} {
		if len(n.commands) > 0 {
			f.Notes = append(f.Notes, n.says+": "+strings.Join(n.commands, ", "))
		}
	}
	if runs[0].Traced {
		f.Notes = append(f.Notes, "all of these runs were traced, which makes jobs longer: caserun sweep without --trace makes better ones")
	}
	if n := len(regress.Machines(runs)); n > 1 {
		f.Notes = append(f.Notes, fmt.Sprintf("the runs are of %d machines, and the medians of all: fit each machine's runs alone to know its host", n))
	}
	if slices.ContainsFunc(runs, func(r regress.Observation) bool { return gpuOf(r) != gpuOf(runs[0]) }) {
		f.Notes = append(f.Notes, fmt.Sprintf("the runs are of several models of GPU, and the profiles name the first, %s: a simulated node of another model scales them by it", gpuOf(runs[0])))
	}
	return f, nil
}

// toFit are the runs in which jobs last as long as they do alone. Tracing makes them longer.
func toFit(runs []regress.Observation) (out []regress.Observation) {
	for _, traced := range []bool{false, true} {
		for _, r := range runs {
			if r.Mode == results.Live && r.Status == results.Complete && r.Doubts == "" && r.Scheduler == "sa" && r.Traced == traced {
				out = append(out, r)
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// gpuOf is the name of a run's first GPU, which is that of all its GPUs in nearly all machines.
func gpuOf(r regress.Observation) string {
	if len(r.Devices) == 0 {
		return ""
	}
	return r.Devices[0].Name
}

// durations are how long the jobs that ended ok lasted, in seconds, by command, and the commands of which none did.
func durations(ctx context.Context, db *store.Store, runs []regress.Observation) (seconds map[string][]float64, failed []string, err error) {
	all := map[string][]float64{}
	for _, r := range runs {
		jobs, err := db.Jobs(ctx, r.ID)
		if err != nil {
			return nil, nil, err
		}
		for _, j := range jobs {
			lasted := all[j.Command]
			if j.Outcome != nil && *j.Outcome == results.OK && j.StartS != nil && j.EndS != nil {
				lasted = append(lasted, *j.EndS-*j.StartS)
			}
			all[j.Command] = lasted
		}
	}
	for _, command := range slices.Sorted(maps.Keys(all)) {
		if len(all[command]) == 0 {
			failed = append(failed, command)
			delete(all, command)
		}
	}
	return all, failed, nil
}
