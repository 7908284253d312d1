package cluster_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// highEnd is the dissertation's Table 4-3: 4 GTX 480; K40c, C2075, C2070; K20c, C2050.
var highEnd = []cluster.Node{
	{Name: "n1", Devices: 4, Cores: 4 * 15 * 32},
	{Name: "n2", Devices: 3, Cores: 15*192 + 2*14*32},
	{Name: "n3", Devices: 2, Cores: 13*192 + 14*32},
}

func newHead(t testing.TB, policy string, nodes ...cluster.Node) *cluster.Head {
	t.Helper()
	p, err := cluster.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	h, err := cluster.New(p, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// call makes a call from its text: JOB RANKS mm|nw|adfa (MM and NW are short, and sensitive to communication; long is a long
// job that is, and brief a short one that is not), end JOB, rank JOB NODE, down NODE, up NODE, load NODE WAITING JOB..., tick.
func call(t testing.TB, h *cluster.Head, text string) []cluster.Decision {
	t.Helper()
	words := strings.Fields(text)
	number := func(i int) int {
		n, err := strconv.Atoi(strings.TrimPrefix(words[i], "n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return n
	}
	job := func(i int) schedulers.JobID { return schedulers.JobID(number(i)) }
	switch words[0] {
	case "end":
		return h.JobEnded(job(1))
	case "rank":
		return h.RankEnded(job(1), number(2)-1)
	case "down":
		return h.NodeDown(number(1) - 1)
	case "up":
		return h.NodeUp(number(1) - 1)
	case "tick":
		return h.Tick()
	case "left":
		return h.Left(job(1), number(2)-1)
	case "stays":
		return h.Stayed(job(1), number(2)-1)
	case "load":
		var started []schedulers.JobID
		for i := range words[3:] {
			started = append(started, job(3+i))
		}
		return h.Load(number(1)-1, number(2), started...)
	}
	j := cluster.Job{ID: job(0), Name: words[0], Ranks: number(1)}
	switch words[2] {
	case "adfa":
		j.Kind, j.Class = cluster.Computation, cluster.Long
	case "long":
		j.Class = cluster.Long
	case "brief":
		j.Kind = cluster.Computation
	}
	return h.Submit(j)
}

var text = schedtest.HeadText

// step is a call and what is decided.
type step [2]string

func TestListings(t *testing.T) {
	for _, test := range []struct {
		about, policy string
		steps         []step
	}{
		{"batch: a device for each rank, and who finds too few waits", "cluster-batch", []step{
			{"1 5 mm", "1 > n1:4 n2:1"},
			{"2 3 adfa", "2 > n2:2 n3:1"},
			{"3 2 mm", ""},
			{"4 1 mm", ""},
			{"rank 1 n1", "3 > n1:1 n3:1"},
			{"end 2", "4 > n2:1"},
			{"5 10 mm", "5 refused: job 5 has 10 ranks, and each needs a device of its own, but the cluster has 9 devices: give it fewer ranks, or choose a policy that shares devices"},
		}},
		{"Listing 4-1: a job's ranks in turn", "cluster-rr", []step{
			{"1 8 mm", "1 > n1:3 n2:3 n3:2"},
			{"2 2 mm", "2 > n1:1 n3:1"},
			{"3 1 adfa", "3 > n2:1"},
		}},
		{"Listing 4-1 as printed: a rank to every node of the last round", "cluster-rr:literal=true", []step{
			{"1 8 mm", "1 > n1:3 n2:3 n3:3"},
			{"2 2 mm", "2 > n1:1 n2:1 n3:1"},
		}},
		{"Listing 4-2: all to the node with most room, which may be too much", "coloc", []step{
			{"1 2 mm", "1 > n1:2"},
			{"2 8 nw", "2 > n2:8"},
			{"3 2 mm", "3 > n1:2"},
			{"4 4 mm", "4 > n3:4"},
			{"5 4 mm", ""},
			{"6 1 adfa", ""},
			{"end 2", "5 > n2:4"},
			{"rank 1 n1", "6 > n1:1"},
		}},
		{"Listing 4-2: ADFA takes what there is, node by node", "coloc", []step{
			{"1 6 adfa", "1 > n1:4 n2:2"},
			{"2 5 adfa", "2 > n1:1 n2:2 n3:2"},
			{"3 1 adfa", ""},
			{"end 1", "3 > n1:1"},
		}},
		{"Listing 4-2 as printed: ADFA gets what there is, needed or not", "coloc:literal=true", []step{
			{"1 2 adfa", "1 > n1:4 n2:3 n3:2"},
		}},
		{"Listing 4-2: room counts although other nodes are overloaded", "coloc", []step{
			{"1 6 mm", "1 > n1:6"},
			{"2 3 mm", "2 > n2:3"},
			{"3 1 adfa", "3 > n3:1"},
		}},
		{"Listing 4-2 as printed: room on n3 less the overload of n1 is nothing, and less than nothing is enough", "coloc:literal=true", []step{
			{"1 6 mm", "1 > n1:6"},
			{"2 3 mm", "2 > n2:3"},
			{"3 1 adfa", ""},
			{"4 1 mm", "4 > n3:1"},
			{"5 2 adfa", "3 > n3:1; 5 > n1:1 n2:1"},
		}},
		{"two nodes for each job: those with most room, then in turn", "coloc:nodes=2,weights=4:8:4", []step{
			{"1 6 mm", "1 > n2:6"},
			{"2 7 adfa", "2 > n1:4 n3:3"},
			{"3 6 mm", "3 > n2:4 n3:2"},
			{"4 1 mm", ""},
		}},
		{"no bound: communication as well", "coloc:nodes=all,weights=4:8:4", []step{
			{"1 12 mm", "1 > n2:8 n1:4"},
			{"2 6 mm", "2 > n2:1 n1:1 n3:4"},
		}},
		{"WG2 and WG3 of the seed", "coloc:weights=8:4:4", []step{
			{"1 5 mm", "1 > n1:5"},
			{"2 1 mm", "2 > n2:1"},
			{"3 1 mm", "3 > n3:1"},
			{"4 1 mm", "4 > n1:1"},
		}},
		{"a lost node: its jobs, by name, and nobody else's", "coloc", []step{
			{"1 6 adfa", "1 > n1:4 n2:2"},
			{"2 2 mm", "2 > n3:2"},
			{"3 4 mm", "3 > n2:4"},
			{"4 1 mm", ""},
			{"down n1", "1 < n1:4 n2:2 (job 1 is lost: node n1 is down)"},
			{"rank 1 n2", ""},
			{"end 2", "4 > n3:1"},
			{"5 8 adfa", "5 > n2:4 n3:4"},
			{"down n1", ""},
			{"6 1 mm", ""},
			{"up n1", "6 > n1:1"},
		}},
		{"all nodes lost: jobs wait", "cluster-rr", []step{
			{"down n1", ""}, {"down n2", ""}, {"down n3", ""},
			{"1 2 mm", ""},
			{"2 2 mm", ""},
			{"end 1", ""},
			{"up n2", "2 > n2:2"},
		}},
		{"Listing 4-3: the fewest long jobs give way, and resume when no short job is left there", "latency", []step{
			{"1 4 long", "1 > n1:4"},
			{"2 2 long", "2 > n2:2"},
			{"3 1 long", "3 > n3:1"},
			{"4 2 mm", "4 > n2:2"},
			{"5 3 long", "5 > n3:3"},
			{"6 2 mm", "1 @ n1:0; 6 > n1:2"},
			{"7 1 mm", "7 > n1:1"},
			{"8 5 mm", "8 > n1:5"},
			{"9 3 brief", "2 @ n2:0; 9 > n1:1 n2:2"},
			{"rank 9 n2", ""},
			{"10 1 mm", "5 @ n3:0; 10 > n3:1"},
			{"11 1 long", ""},
			{"end 6", ""}, {"end 7", ""}, {"end 8", ""},
			{"end 9", "1 @ n1:4"},
			{"end 10", "5 @ n3:2"},
			{"end 1", "11 > n1:1"},
			{"end 4", "2 @ n2:3"},
		}},
		{"Listing 4-3: short jobs wait before long ones", "latency", []step{
			{"1 9 brief", "1 > n1:4 n2:3 n3:2"},
			{"2 1 long", ""},
			{"3 1 mm", ""},
			{"rank 1 n3", "3 > n3:1"},
			{"rank 1 n2", "2 > n2:1"},
		}},
		{"a variant: long jobs keep a device", "latency:limit=1", []step{
			{"1 4 long", "1 > n1:4"},
			{"2 3 long", "2 > n2:3"},
			{"3 1 long", "3 > n3:1"},
			{"4 1 long", "4 > n3:1"},
			{"5 4 mm", "1 @ n1:1; 5 > n1:4"},
			{"6 2 mm", "2 @ n2:1; 6 > n2:2"},
			{"7 1 mm", ""},
			{"rank 1 n1", ""},
			{"end 1", ""},
			{"end 5", "7 > n1:1"},
			{"end 6", "2 @ n2:3"},
		}},
		{"a lost node with a suspended job, and one with its short job", "latency", []step{
			{"1 9 adfa", "1 > n1:4 n2:3 n3:2"},
			{"2 1 mm", "1 @ n1:0; 2 > n1:1"},
			{"3 4 mm", "3 > n1:4"},
			{"4 1 mm", "1 @ n2:0; 4 > n2:1"},
			{"down n1", "1 < n1:4 n2:3 n3:2 (job 1 is lost: node n1 is down); 2 < n1:1 (job 2 is lost: node n1 is down); 3 < n1:4 (job 3 is lost: node n1 is down)"},
			{"5 4 adfa", "5 > n2:2 n3:2"},
			{"6 1 mm", "5 @ n2:0; 6 > n2:1"},
			{"end 6", ""},
			{"end 4", "5 @ n2:3"},
		}},
		{"offload: the latest jobs that have not started move, once", "coloc+offload:threshold=2", []step{
			{"1 8 mm", "1 > n1:8"},
			{"2 4 mm", "2 > n2:4"},
			{"load n1 2 1", ""},
			{"load n1 4", ""},
			{"load n2 4", "2 ? n2 (node n2 has 4 ranks waiting, more than 2)"},
			{"left 2 n2", "2 > n3:4"},
			{"load n3 9", ""},
			{"3 4 adfa", "3 > n1:1 n2:3"},
			{"load n2 3", ""},
		}},
		{"offload: batch moves no rank to a device that has one", "cluster-batch+offload:threshold=0", []step{
			{"1 4 mm", "1 > n1:4"},
			{"2 2 mm", "2 > n2:2"},
			{"load n1 4", ""},
			{"load n2 2", "2 ? n2 (node n2 has 2 ranks waiting, more than 0)"},
			{"left 2 n2", "2 > n3:2"},
		}},
		{"Listing 4-3: the next short job takes the place before it is given back", "latency", []step{
			{"1 4 long", "1 > n1:4"},
			{"2 5 brief", "2 > n2:3 n3:2"},
			{"3 4 mm", "1 @ n1:0; 3 > n1:4"},
			{"4 1 mm", ""},
			{"end 3", "4 > n1:1"},
			{"end 4", "1 @ n1:4"},
		}},
		{"a limit takes nothing from a job with fewer ranks", "latency:limit=2", []step{
			{"1 4 long", "1 > n1:4"}, {"2 3 long", "2 > n2:3"}, {"3 2 long", "3 > n3:2"},
			{"4 1 mm", "1 @ n1:2; 4 > n1:1"},
			{"rank 1 n1", ""}, {"rank 1 n1", ""}, {"rank 1 n1", ""},
			{"5 1 mm", "5 > n1:1"},
			{"6 1 mm", "6 > n1:1"},
		}},
		{"a limit to as many devices as a node has would be none", "latency:weights=8:4:4,limit=4", []step{
			{"1 16 adfa", "1 > n1:8 n2:4 n3:4"},
			{"2 1 mm", ""},
			{"rank 1 n1", "2 > n1:1"},
		}},
		{"offload: no more moves than needed", "cluster-rr+offload:threshold=2", []step{
			{"1 1 mm", "1 > n1:1"}, {"2 2 mm", "2 > n2:1 n3:1"}, {"3 1 mm", "3 > n1:1"}, {"4 2 mm", "4 > n2:1 n3:1"}, {"5 1 mm", "5 > n1:1"},
			{"load n1 4", "5 ? n1 (node n1 has 4 ranks waiting, more than 2)"},
			{"left 5 n1", "5 > n2:1; 3 ? n1 (node n1 has 3 ranks waiting, more than 2)"},
			{"left 3 n1", "3 > n3:1"},
		}},
		{"offload: a job that has started stays, and another one is asked", "cluster-rr+offload:threshold=2", []step{
			{"1 1 mm", "1 > n1:1"}, {"2 2 mm", "2 > n2:1 n3:1"}, {"3 1 mm", "3 > n1:1"}, {"4 2 mm", "4 > n2:1 n3:1"}, {"5 1 mm", "5 > n1:1"},
			{"load n1 3", "5 ? n1 (node n1 has 3 ranks waiting, more than 2)"},
			{"load n1 3", ""},
			{"stays 5 n1", "3 ? n1 (node n1 has 3 ranks waiting, more than 2)"},
			{"stays 5 n1", ""},
			{"end 3", ""},
			{"left 3 n1", ""},
		}},
		{"offload: a job that has left goes back if no other node is better any more", "cluster-rr+offload:threshold=2", []step{
			{"1 1 mm", "1 > n1:1"}, {"2 2 mm", "2 > n2:1 n3:1"}, {"3 1 mm", "3 > n1:1"},
			{"load n1 3", "3 ? n1 (node n1 has 3 ranks waiting, more than 2)"},
			{"down n2", "2 < n2:1 n3:1 (job 2 is lost: node n2 is down)"},
			{"down n3", ""},
			{"left 3 n1", "3 > n1:1"},
			{"tick", ""},
		}},
		{"offload: a suspended job stays", "latency+offload:threshold=0", []step{
			{"1 9 adfa", "1 > n1:4 n2:3 n3:2"},
			{"2 1 mm", "1 @ n1:0; 2 > n1:1"},
			{"end 1", ""},
			{"3 4 long", "3 > n1:4"},
			{"4 5 adfa", "4 > n2:3 n3:2"},
			{"5 1 mm", "3 @ n1:0; 5 > n1:1"},
			{"load n1 5 2 5", ""},
		}},
		{"offload: nothing waits on a node that comes back", "coloc+offload:threshold=2", []step{
			{"load n1 9", ""},
			{"down n1", ""},
			{"up n1", ""},
			{"1 4 mm", "1 > n1:4"},
			{"tick", ""},
		}},
		{"what cannot run is refused", "coloc", []step{
			{"1 0 mm", "1 refused: job 1 has 0 ranks: give it at least 1"},
			{"2 1 mm", "2 > n1:1"},
			{"2 1 mm", "2 refused: job 2 (2) is in the cluster already: give each job its own number"},
			{"end 2", ""},
			{"end 2", ""},
			{"rank 2 n1", ""},
			{"2 1 mm", "2 > n1:1"},
		}},
	} {
		t.Run(test.about, func(t *testing.T) { play(t, test.policy, test.steps) })
	}
}

func play(t *testing.T, policy string, steps []step) {
	t.Helper()
	h := newHead(t, policy, highEnd...)
	var got []step
	for _, s := range steps {
		got = append(got, step{s[0], text(call(t, h, s[0]))})
	}
	if diff := cmp.Diff(steps, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", policy, diff)
	}
}
