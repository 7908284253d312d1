package results

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ownSettings say which run it is or where its records go; they are compared
// elsewhere or do not matter. What is left says how it ran. The number of workers
// is the run's: the setting's default is another on each host, and not all
// schedulers have it.
var ownSettings = []string{"db", "format", "node", "devices", "sched", "seed", "runs", "trace", "tag", "data", "workers"}

// SettingsOf are the settings that can change a run's figures, as they were in
// effect.
func SettingsOf(r Run) map[string]string {
	out := map[string]string{}
	if r.Workers > 0 {
		out["workers"] = strconv.Itoa(r.Workers)
	}
	var values []struct {
		Key   string
		Value any
	}
	if json.Unmarshal([]byte(r.Provenance.Configuration), &values) != nil {
		return out // a run of an earlier version may have none
	}
	for _, v := range values {
		if !slices.Contains(ownSettings, v.Key) {
			out[v.Key] = fmt.Sprint(v.Value)
		}
	}
	return out
}

// Guarded reports whether nothing was mapped beside the allocations of the run's jobs
// (--guard), so that one which leaves its own faulted.
func Guarded(r Run) bool { return SettingsOf(r)["guard"] == "true" }

// SeveralSettings says in which settings runs differ ("workers: 3 and 64"); it is
// empty where they do not. A setting that a run lacks tells nothing: its version
// did not have it.
func SeveralSettings(runs []Run) string {
	var each []map[string]string
	for _, r := range runs {
		each = append(each, SettingsOf(r))
	}
	return DifferentSettings(each)
}

// DifferentSettings is SeveralSettings of runs with these settings.
func DifferentSettings(each []map[string]string) string {
	found := map[string]map[string]bool{}
	for _, settings := range each {
		for key, value := range settings {
			if found[key] == nil {
				found[key] = map[string]bool{}
			}
			found[key][strconv.Quote(value)] = true
		}
	}
	var differs []string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if values := slices.Sorted(maps.Keys(found[key])); len(values) > 1 {
			differs = append(differs, key+": "+strings.Join(values, " and "))
		}
	}
	return strings.Join(differs, ", ")
}
