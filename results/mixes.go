package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SeveralMixes says what differs in the mixes of runs that have one name and as
// many jobs ("sources: catalog and my.yaml, lists of commands: 2"); it is empty
// where nothing does. Commands are those of each run's jobs, as CommandList gives
// them; a run without any is not compared.
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

// CommandList is the jobs' commands in the order of the mix, one a line.
func CommandList(jobs []Job) string {
	commands := make([]string, len(jobs))
	for i, j := range jobs {
		commands[i] = j.Command
	}
	return strings.Join(commands, "\n")
}
