package results

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ownSettings say which run it is or where its records go. They are compared elsewhere or do
// not matter; all other settings say how the run ran. The number of workers comes from
// Run.Workers, because the setting's default depends on the host and not every scheduler uses
// the setting.
var ownSettings = []string{"db", "format", "node", "devices", "sched", "probe", "seed", "runs", "trace", "tag", "data", "workers", "strict"}

// SettingsOf returns the settings that can change a run's figures, with the values in effect.
func SettingsOf(r Run) map[string]string {
	out := map[string]string{}
	if r.Workers > 0 {
		out["workers"] = strconv.Itoa(r.Workers)
	}
	for key, value := range Configuration(r) {
		if !slices.Contains(ownSettings, key) {
			out[key] = fmt.Sprint(value)
		}
	}
	return out
}

// Configuration returns a run's configuration by key. It is empty if the run has none that can
// be read. Stores of earlier versions have a list of pairs, [{"Key":"seed","Value":1}], in
// place of an object.
func Configuration(r Run) map[string]any {
	out := map[string]any{}
	text := []byte(r.Provenance.Configuration)
	if json.Unmarshal(text, &out) == nil {
		return out
	}
	var pairs []struct {
		Key   string
		Value any
	}
	out = map[string]any{}
	if json.Unmarshal(text, &pairs) == nil {
		for _, p := range pairs {
			out[p.Key] = p.Value
		}
	}
	return out
}

// Guarded reports whether nothing was mapped beside the allocations of the run's jobs
// (--guard), so that a kernel that left its allocation faulted.
func Guarded(r Run) bool { return SettingsOf(r)["guard"] == "true" }

// SeveralSettings says in which settings runs differ, as `workers: "3" and "64"`. It is empty
// if they do not differ. A setting that a run lacks is not compared, because the run's version
// of caserun did not have it.
func SeveralSettings(runs []Run) string {
	var each []map[string]string
	for _, r := range runs {
		each = append(each, SettingsOf(r))
	}
	return DifferentSettings(each)
}

// DifferentSettings is SeveralSettings for the settings of each run.
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

// Machine names the host and the GPUs of a live run, these by UUID. A simulated run depends on no machine: "".
func Machine(mode Mode, host string, devices []Device) string {
	if mode != Live {
		return ""
	}
	var uuids []string
	for _, d := range devices {
		uuids = append(uuids, d.UUID)
	}
	slices.Sort(uuids)
	return host + "\n" + strings.Join(uuids, " ")
}

// SeveralMachines says under how many host names and on how many sets of GPUs the complete live runs ran, as
// "host names: 2, sets of GPUs: 3". It is empty if they ran on one machine. devices are the GPUs of
// each run by its id; GPUs are identified by their UUIDs.
func SeveralMachines(runs []Run, devices map[int64][]Device) string {
	hosts, sets := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		if r.Mode != Live || r.Status != Complete {
			continue
		}
		hosts[r.Provenance.Host] = true
		var uuids []string
		for _, d := range devices[r.ID] {
			uuids = append(uuids, d.UUID)
		}
		slices.Sort(uuids)
		sets[strings.Join(uuids, " ")] = true
	}
	if len(hosts) < 2 && len(sets) < 2 {
		return ""
	}
	return fmt.Sprintf("host names: %d, sets of GPUs: %d", len(hosts), len(sets))
}

// SeveralMixes says how the mixes of runs differ that have equal names and equally many jobs,
// as "sources: catalog and my.yaml, lists of commands: 2". It is empty if they do not differ.
// commands has the CommandList of each run by its id; a run without commands is not compared.
func SeveralMixes(runs []Run, commands map[int64]string) string {
	sources, lists := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		sources[r.MixSource] = true
		if c := commands[r.ID]; c != "" {
			lists[c] = true
		}
	}
	var differs []string
	if len(sources) > 1 {
		differs = append(differs, "sources: "+strings.Join(slices.Sorted(maps.Keys(sources)), " and "))
	}
	if len(lists) > 1 {
		differs = append(differs, fmt.Sprintf("lists of commands: %d", len(lists)))
	}
	return strings.Join(differs, ", ")
}

// CommandList returns the jobs' commands in the order of the mix, one on each line.
func CommandList(jobs []Job) string {
	commands := make([]string, len(jobs))
	for i, j := range jobs {
		commands[i] = j.Command
	}
	return strings.Join(commands, "\n")
}
