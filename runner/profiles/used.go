package profiles

import (
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
)

// Footprints are the footprints of jobs that have a profile, by command.
func (s Set) Footprints(jobs []mixes.Job) map[string]mixes.Footprint {
	out := map[string]mixes.Footprint{}
	for _, j := range jobs {
		if p, err := s.Lookup(j); err == nil && p.Footprint != (mixes.Footprint{}) {
			out[j.Command()] = p.Footprint
		}
	}
	return out
}

// Used are the footprints that a run's jobs had, by command: the most memory that a job of the
// command used, and the task with the most warps. A job that did not end ok does not count,
// because it may not have come to what it needs.
func Used(jobs []results.Job, tasks []results.Task) map[string]mixes.Footprint {
	out := map[string]mixes.Footprint{}
	commands := map[int]string{}
	for _, j := range jobs {
		if j.Outcome == nil || *j.Outcome != results.OK || j.UsedBytes == nil {
			continue
		}
		commands[j.Index] = j.Command
		f := out[j.Command]
		if j.Devices == nil { // else it used so much on all its devices together
			f.Bytes = max(f.Bytes, *j.UsedBytes)
		}
		out[j.Command] = f
	}
	most := map[string]float64{} // warps
	for _, t := range tasks {
		command, ok := commands[t.Job]
		if warps := t.Warps(); ok && t.GrantS != nil && t.Blocks > 0 && warps > most[command] {
			most[command] = warps
			f := out[command]
			f.Blocks, f.ThreadsPerBlock = t.Blocks, t.ThreadsPerBlock
			out[command] = f
		}
	}
	return out
}
