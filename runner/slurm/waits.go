package slurm

import (
	"fmt"
	"strings"
)

// Wait is a reason for which tasks wait.
type Wait struct {
	Reason string // Slurm's
	Tasks  int    // how many
	// Remedy is what to look at or to do, because the wait may last until somebody acts. It is empty for a
	// wait that Slurm ends by itself.
	Remedy string
}

// lasting are the reasons that may not end by themselves, and what to do. The first that fits is taken.
var lasting = []struct{ reason, remedy string }{
	{"ReqNodeNotAvail", nodesRemedy},
	{"Nodes required for job are", nodesRemedy},
	{"NodeDown", nodesRemedy},
	{"PartitionNodeLimit", "sinfo -o '%P %s %l %D %N' shows what each partition allows and has: cancel, and submit again with less or another --partition"},
	{"PartitionTimeLimit", "sinfo -o '%P %l' shows the longest --time of each partition: cancel, and submit again with less"},
	{"PartitionDown", "sinfo -s shows the partitions: wait for an administrator, or cancel and submit again with another --partition"},
	{"PartitionInactive", "sinfo -s shows the partitions: wait for an administrator, or cancel and submit again with another --partition"},
	{"BadConstraints", "no node has as much: sinfo -N -o '%N %c %m %G' shows what nodes have; cancel, and submit again with less"},
	{"JobHeld", "somebody holds them: scontrol release lets them start"},
	{"JobHoldMaxRequeue", "they were started again too often: see the tasks' logs, and scontrol release lets them start"},
	{"DependencyNeverSatisfied", "cancel, and submit again"},
	{"PerJob", limitRemedy}, // such as AssocMaxCpuPerJobLimit
	{"PerNode", limitRemedy},
	{"MaxMemPerLimit", limitRemedy},
	{"MaxWallDurationPerJob", limitRemedy},
	{"Account", limitRemedy}, // such as InvalidAccount
	{"InvalidQOS", limitRemedy},
	{"QOSNotAllowed", limitRemedy},
}

const (
	nodesRemedy = "sinfo -R shows why nodes are away: this ends once they are back, or cancel and ask for other nodes"
	limitRemedy = "the cluster limits what you may have: cancel, and ask for less, or for another --account or --partition"
)

// Waits returns the reasons for which tasks wait, in the order of the first task of each. Tasks of which
// Slurm says no reason yet are left out.
func Waits(tasks []Task) (waits []Wait) {
	at := map[string]int{}
	for _, t := range tasks {
		if t.State != "PENDING" || t.Reason == "" || t.Reason == "None" {
			continue
		}
		i, ok := at[t.Reason]
		if !ok {
			i = len(waits)
			at[t.Reason] = i
			waits = append(waits, Wait{Reason: t.Reason, Remedy: remedyFor(t.Reason)})
		}
		waits[i].Tasks++
	}
	return waits
}

// remedyFor is empty for a reason that ends by itself. Some versions of Slurm write _ for a space.
func remedyFor(reason string) string {
	reason = strings.ReplaceAll(reason, "_", " ")
	for _, l := range lasting {
		if strings.Contains(reason, l.reason) {
			return l.remedy
		}
	}
	return ""
}

// Short is the beginning of the reason: without the names of nodes, for example.
func (w Wait) Short() string {
	short, _, _ := strings.Cut(w.Reason, ",")
	return short
}

func (w Wait) String() string {
	text := fmt.Sprintf("%d tasks wait: %s", w.Tasks, w.Reason)
	if w.Tasks == 1 {
		text = "1 task waits: " + w.Reason
	}
	if w.Remedy != "" {
		text += ": " + w.Remedy
	}
	return text
}
