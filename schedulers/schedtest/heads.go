package schedtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
)

// Head is a property that holds if the policy of a cluster's head keeps the rules of all such policies. Whatever happens, in whatever order:
//   - all ranks of a job are assigned at once, to nodes that are up, or the job is refused;
//   - a lost node takes its own jobs along, all of them and no others;
//   - long jobs give way to short ones only, and resume when these are gone;
//   - nothing that needs no more than what is free waits, unless a program decides;
//   - once nothing happens any more, nothing is decided any more;
//   - all jobs end if those end that run and are not suspended;
//   - the same calls give the same answers.
//
// settle makes the policy for a random cluster.
func Head(settle func() (cluster.Policy, error)) func(*rapid.T) {
	return func(rt *rapid.T) {
		policy, err := settle()
		if err != nil {
			rt.Fatal(err)
		}
		newHeadBooks(rt, policy).run()
	}
}

// headBooks are what a caller knows of a cluster.
type headBooks struct {
	*rapid.T
	policy cluster.Policy
	nodes  []cluster.Node
	up     []bool
	heads  [2]*cluster.Head
	jobs   map[schedulers.JobID]*booked
	asked  []cluster.Leave // not answered yet
	last   schedulers.JobID
}

type booked struct {
	cluster.Job
	at      map[int]int // ranks by node
	limited map[int]bool
	moving  int // ranks that have left a node
}

func (b *booked) waits() bool { return len(b.at) == 0 }

func newHeadBooks(rt *rapid.T, policy cluster.Policy) *headBooks {
	b := &headBooks{T: rt, policy: policy, jobs: map[schedulers.JobID]*booked{}}
	for i := range rapid.IntRange(1, 5).Draw(rt, "nodes") {
		b.nodes = append(b.nodes, cluster.Node{Name: fmt.Sprintf("n%d", i+1), Devices: rapid.IntRange(1, 4).Draw(rt, "devices"), Cores: rapid.IntRange(100, 400).Draw(rt, "cores")})
		b.up = append(b.up, true)
	}
	for i := range b.heads {
		head, err := cluster.New(policy, b.nodes)
		if err != nil {
			rt.Fatal(err)
		}
		b.heads[i] = head
	}
	return b
}

func (b *headBooks) run() {
	actions := map[string]func(*rapid.T){
		"submit": func(rt *rapid.T) {
			b.last++
			j := cluster.Job{ID: b.last, Name: "random", Ranks: rapid.IntRange(1, 9).Draw(rt, "ranks"),
				Kind: cluster.Kind(rapid.IntRange(0, 1).Draw(rt, "kind")), Class: cluster.Class(rapid.IntRange(0, 1).Draw(rt, "class")), Whole: rapid.IntRange(0, 3).Draw(rt, "whole") == 0}
			b.jobs[j.ID] = &booked{Job: j, at: map[int]int{}, limited: map[int]bool{}}
			b.tell(func(h *cluster.Head) []cluster.Decision { return h.Submit(j) })
		},
		"rank": func(rt *rapid.T) {
			if j := b.draw(rt); j != nil && !j.waits() {
				node := rapid.SampledFrom(slices.Sorted(maps.Keys(j.at))).Draw(rt, "node")
				b.endRank(j, node)
			}
		},
		"end": func(rt *rapid.T) {
			if j := b.draw(rt); j != nil {
				b.end(j)
			}
		},
		"down": func(rt *rapid.T) { b.lose(rapid.IntRange(0, len(b.nodes)-1).Draw(rt, "node")) },
		"up":   func(rt *rapid.T) { b.bring(rapid.IntRange(0, len(b.nodes)-1).Draw(rt, "node")) },
		"load": func(rt *rapid.T) {
			node, waiting := rapid.IntRange(0, len(b.nodes)-1).Draw(rt, "node"), rapid.IntRange(0, 6).Draw(rt, "waiting")
			var started []schedulers.JobID
			if j := b.draw(rt); j != nil {
				started = append(started, j.ID)
			}
			b.tell(func(h *cluster.Head) []cluster.Decision { return h.Load(node, waiting, started...) })
		},
		"stranger": func(*rapid.T) { // a message of a job that nobody knows
			b.tell(func(h *cluster.Head) []cluster.Decision { return h.RankEnded(b.last+1, 0) })
			b.tell(func(h *cluster.Head) []cluster.Decision { return h.JobEnded(b.last + 1) })
		},
		"": func(*rapid.T) { b.check() },
	}
	if b.policy.Offloads() {
		actions["answer"] = func(rt *rapid.T) {
			if len(b.asked) > 0 {
				b.answer(rapid.Bool().Draw(rt, "left"))
			}
		}
	}
	b.Repeat(actions)
	b.drain()
}

// answer answers the first question that is open.
func (b *headBooks) answer(left bool) {
	asked := b.asked[0]
	b.asked = b.asked[1:]
	j := b.jobs[asked.Job]
	late := j == nil || j.at[asked.Node] == 0
	if left && !late {
		j.moving = j.at[asked.Node]
		delete(j.at, asked.Node)
	}
	decided := b.tell(func(h *cluster.Head) []cluster.Decision {
		if left {
			return h.Left(asked.Job, asked.Node)
		}
		return h.Stayed(asked.Job, asked.Node)
	})
	if late && len(decided) > 0 {
		b.Fatalf("%+v is answered too late, and this was decided: %s", asked, HeadText(decided))
	}
}

// draw draws a job; nil: no job is left.
func (b *headBooks) draw(rt *rapid.T) *booked {
	if len(b.jobs) == 0 {
		return nil
	}
	return b.jobs[rapid.SampledFrom(slices.Sorted(maps.Keys(b.jobs))).Draw(rt, "job")]
}

func (b *headBooks) endRank(j *booked, node int) {
	j.Ranks--
	if j.at[node]--; j.at[node] == 0 {
		delete(j.at, node)
		delete(j.limited, node)
	}
	if j.waits() {
		delete(b.jobs, j.ID)
	}
	b.tell(func(h *cluster.Head) []cluster.Decision { return h.RankEnded(j.ID, node) })
}

func (b *headBooks) end(j *booked) {
	delete(b.jobs, j.ID)
	b.tell(func(h *cluster.Head) []cluster.Decision { return h.JobEnded(j.ID) })
}

func (b *headBooks) lose(node int) {
	var losing []schedulers.JobID
	for id, j := range b.jobs {
		if j.at[node] > 0 {
			losing = append(losing, id)
		}
	}
	b.up[node] = false
	var lost []schedulers.JobID
	for _, d := range b.tell(func(h *cluster.Head) []cluster.Decision { return h.NodeDown(node) }) {
		if w, ok := d.(cluster.Withdraw); ok {
			lost = append(lost, w.Job)
		}
	}
	slices.Sort(losing)
	slices.Sort(lost)
	if !slices.Equal(losing, lost) {
		b.Fatalf("node %d is down with jobs %v, and jobs %v are lost", node, losing, lost)
	}
}

func (b *headBooks) bring(node int) {
	b.up[node] = true
	b.tell(func(h *cluster.Head) []cluster.Decision { return h.NodeUp(node) })
}

// tell makes a call to both heads, and enters what they decide.
func (b *headBooks) tell(call func(*cluster.Head) []cluster.Decision) []cluster.Decision {
	decided := call(b.heads[0])
	if diff := cmp.Diff(decided, call(b.heads[1])); diff != "" {
		b.Fatalf("equal calls differ (-first +second):\n%s", diff)
	}
	if len(decided) > 2*len(b.nodes)*(len(b.jobs)+1) {
		b.Fatalf("%d decisions about %d jobs: %s", len(decided), len(b.jobs), HeadText(decided))
	}
	if err := b.heads[0].Err(); err != nil {
		failWith(b.T, err)
	}
	b.logDecisions(decided)
	for _, d := range decided {
		b.enter(d)
	}
	return decided
}

func (b *headBooks) logDecisions(ds []cluster.Decision) {
	if len(ds) > 0 {
		b.Logf("%s%s", decided, HeadText(ds))
	}
}

func (b *headBooks) enter(d cluster.Decision) {
	switch d := d.(type) {
	case cluster.Assign:
		b.assigned(d)
	case cluster.Leave:
		if j := b.jobs[d.Job]; j == nil || j.at[d.Node] == 0 || j.limited[d.Node] {
			b.Fatalf("%+v: the job is %+v", d, j)
		}
		b.asked = append(b.asked, d)
	case cluster.Withdraw:
		j := b.jobs[d.Job]
		for _, s := range d.Shares {
			if j == nil || j.at[s.Node] != s.Ranks {
				b.Fatalf("%+v: the job has %+v", d, j)
			}
			delete(j.at, s.Node)
		}
		if !j.waits() {
			b.Fatalf("%+v leaves %+v", d, j)
		}
		delete(b.jobs, d.Job)
	case cluster.Limit:
		j, devices := b.jobs[d.Job], b.nodes[d.Node].Devices
		if j == nil || j.at[d.Node] == 0 || j.Class != cluster.Long || j.limited[d.Node] == (d.Devices < devices) || d.Devices > devices {
			b.Fatalf("%+v: the job is %+v", d, j)
		}
		if delete(j.limited, d.Node); d.Devices < devices {
			j.limited[d.Node] = true
		} else if needed := b.shorts(d.Node); len(needed) > 0 {
			b.Fatalf("%+v: resumed, though short jobs need the node: %v", d, needed)
		}
	case cluster.Refuse:
		devices, most := 0, 0
		for _, n := range b.nodes {
			devices, most = devices+n.Devices, max(most, n.Devices)
		}
		isEmpty := b.policy.Program() != nil && b.isEmpty()
		if j := b.jobs[d.Job]; j == nil || !j.waits() || !isEmpty && (b.policy.Name != "cluster-batch" || j.Ranks <= devices) && (!j.Whole || j.Ranks <= most) {
			b.Fatalf("%+v: the job is %+v, on %d devices", d, j, devices)
		}
		delete(b.jobs, d.Job)
	}
}

// isEmpty reports whether all nodes are up, and none has ranks.
func (b *headBooks) isEmpty() bool {
	for _, j := range b.jobs {
		if !j.waits() {
			return false
		}
	}
	return !slices.Contains(b.up, false)
}

func (b *headBooks) assigned(d cluster.Assign) {
	j, want := b.jobs[d.Job], 0
	if j != nil {
		want = j.Ranks
	}
	if j != nil && j.moving > 0 {
		want, j.moving = j.moving, 0
	} else if j == nil || !j.waits() {
		b.Fatalf("%+v: the job is %+v", d, j)
	}
	for _, s := range d.Shares {
		if want -= s.Ranks; s.Ranks < 1 || !b.up[s.Node] || j.at[s.Node] > 0 {
			b.Fatalf("%+v: the job is %+v, up are %v", d, j, b.up)
		}
		j.at[s.Node] = s.Ranks
		if j.Whole && (s.Ranks != j.Ranks || b.nodes[s.Node].Devices < j.Ranks) {
			b.Fatalf("%+v: the job is %+v", d, j)
		}
	}
	if want != 0 {
		b.Fatalf("%+v misses %d ranks", d, want)
	}
	if bound, ok := map[string]int{"coloc:nodes=2": 2, "latency:nodes=2,limit=2": 2}[b.policy.String()]; ok && len(j.at) > bound {
		b.Fatalf("%+v has more nodes than %d", d, bound)
	}
}

// shorts are the short jobs that wait, and those with ranks on the node.
func (b *headBooks) shorts(node int) (jobs []schedulers.JobID) {
	for id, j := range b.jobs {
		if j.Class == cluster.Short && (j.waits() || j.at[node] > 0) {
			jobs = append(jobs, id)
		}
	}
	return jobs
}

// check looks at the cluster between two calls.
func (b *headBooks) check() {
	free, waits := 0, []*booked(nil)
	used := make([]int, len(b.nodes))
	for _, id := range slices.Sorted(maps.Keys(b.jobs)) {
		j := b.jobs[id]
		if j.moving > 0 {
			b.Fatalf("%+v has left a node, and was assigned to nothing", j)
		}
		if j.waits() {
			waits = append(waits, j)
		}
		for node, ranks := range j.at {
			used[node] += ranks
		}
	}
	for i, n := range b.nodes {
		if b.policy.Name == "cluster-batch" && used[i] > n.Devices {
			b.Fatalf("node %d has %d ranks on %d devices", i, used[i], n.Devices)
		}
		if b.up[i] {
			free += n.Devices - used[i]
		}
		for _, j := range b.jobs {
			if j.limited[i] && len(b.shorts(i)) == 0 && len(b.asked) == 0 {
				b.Fatalf("%+v is limited on node %d for nobody", j, i)
			}
		}
	}
	if len(b.asked) > 0 { // room that is left may be given
		return
	}
	if len(waits) > 0 && b.policy.Program() == nil {
		b.mustWait(waits, used, free)
	}
	decided := b.tell((*cluster.Head).Tick)
	for range len(b.jobs) * len(b.nodes) { // each share moves once
		for len(b.asked) > 0 {
			b.answer(true)
		}
		decided = b.tell((*cluster.Head).Tick)
	}
	if len(decided) > 0 {
		b.Fatalf("nothing happened, and this was decided: %s", HeadText(decided))
	}
}

// mustWait checks that no node has room for the job that is first in the queue.
func (b *headBooks) mustWait(waits []*booked, used []int, free int) {
	first := waits[0]
	if i := slices.IndexFunc(waits, func(j *booked) bool { return j.Class == cluster.Short }); b.policy.Name == "latency" && i >= 0 {
		first = waits[i]
	}
	for i, n := range b.nodes {
		goes := b.up[i] && (!first.Whole || n.Devices >= first.Ranks)
		switch {
		case b.policy.Name == "cluster-batch" && first.Whole:
			goes = goes && n.Devices-used[i] >= first.Ranks
		case b.policy.Name == "cluster-batch":
			goes = first.Ranks <= free
		case b.policy.Name != "cluster-rr":
			goes = goes && !strings.Contains(b.policy.String(), "weights") && used[i] < n.Devices
		}
		if goes {
			b.Fatalf("%+v waits, though used are %v of %+v", first, used, b.nodes)
		}
	}
}

// drain ends the first job that runs and is not suspended, until none is left.
func (b *headBooks) drain() {
	for len(b.asked) > 0 {
		b.answer(true)
	}
	for i := range b.nodes {
		b.bring(i)
	}
	for len(b.jobs) > 0 {
		var ending *booked
		for _, id := range slices.Sorted(maps.Keys(b.jobs)) {
			if j := b.jobs[id]; ending == nil && !j.waits() && len(j.limited) == 0 {
				ending = j
			}
		}
		if ending == nil {
			b.Fatalf("all of %d jobs wait or are limited", len(b.jobs))
		}
		b.end(ending)
		b.check()
	}
}

// HeadText returns what a head decides as text: "3 > n1:2 n2:1" job 3 gets 2 ranks on the first node and 1 on the second,
// "3 ? n1 (reason)" are its ranks to leave the node, "3 < n1:2 (reason)" they are withdrawn, "3 @ n1:0" it may use no device there, "3 refused: reason".
func HeadText(decided []cluster.Decision) string {
	shares := func(all []cluster.Share) (text string) {
		for _, s := range all {
			text += fmt.Sprintf(" n%d:%d", s.Node+1, s.Ranks)
		}
		return text
	}
	var lines []string
	for _, d := range decided {
		switch d := d.(type) {
		case cluster.Assign:
			lines = append(lines, fmt.Sprintf("%d >%s", d.Job, shares(d.Shares)))
		case cluster.Limit:
			lines = append(lines, fmt.Sprintf("%d @ n%d:%d", d.Job, d.Node+1, d.Devices))
		case cluster.Leave:
			lines = append(lines, fmt.Sprintf("%d ? n%d (%s)", d.Job, d.Node+1, d.Reason))
		case cluster.Withdraw:
			lines = append(lines, fmt.Sprintf("%d <%s (%s)", d.Job, shares(d.Shares), d.Reason))
		case cluster.Refuse:
			lines = append(lines, fmt.Sprintf("%d refused: %s", d.Job, d.Reason))
		}
	}
	return strings.Join(lines, "; ")
}
