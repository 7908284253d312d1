package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/schedulers"
	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/schedulers/schedtest"
)

// decider is a function in place of a program.
type decider struct {
	assign func(j cluster.Job, nodes []cluster.NodeView, latest int) []cluster.Share
	err    error
}

func (d *decider) Assign(j cluster.Job, nodes []cluster.NodeView, latest int) []cluster.Share {
	return d.assign(j, nodes, latest)
}

func (d *decider) Err() error { return d.err }

func decided(t testing.TB, policy string, by cluster.Assigner) cluster.Policy {
	t.Helper()
	p, err := cluster.Parse(policy)
	if err != nil {
		t.Fatal(err)
	}
	return p.By(by)
}

// inTurn gives each rank to the next open node in turn.
func inTurn(j cluster.Job, nodes []cluster.NodeView, latest int) (shares []cluster.Share) {
	at := latest
	next := func() {
		for at = (at + 1) % len(nodes); !nodes[at].Open; at = (at + 1) % len(nodes) {
		}
	}
	if next(); j.Whole {
		return []cluster.Share{{Node: at, Ranks: j.Ranks}}
	}
	for range j.Ranks {
		i := slices.IndexFunc(shares, func(s cluster.Share) bool { return s.Node == at })
		if i < 0 {
			i, shares = len(shares), append(shares, cluster.Share{Node: at})
		}
		shares[i].Ranks++
		shares[i], shares[len(shares)-1] = shares[len(shares)-1], shares[i] // the latest comes last
		next()
	}
	return shares
}

// A program can do what cluster-rr does: what it is told is enough, and what it says is what happens.
func TestAProgramInTurnIsClusterRR(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) {
		var nodes []cluster.Node
		for range rapid.IntRange(1, 5).Draw(rt, "nodes") {
			nodes = append(nodes, cluster.Node{Devices: rapid.IntRange(1, 3).Draw(rt, "devices"), Weight: rapid.IntRange(0, 5).Draw(rt, "weight")})
		}
		ours := newHead(t, "cluster-rr", nodes...)
		theirs, err := cluster.New(decided(t, "exec:./p", &decider{assign: inTurn}), nodes)
		if err != nil {
			rt.Fatal(err)
		}
		last := schedulers.JobID(0)
		both := func(call func(h *cluster.Head) []cluster.Decision) {
			if want, got := text(call(ours)), text(call(theirs)); got != want {
				rt.Fatalf("the program decides %q, cluster-rr %q", got, want)
			}
		}
		node := func(rt *rapid.T) int { return rapid.IntRange(0, len(nodes)-1).Draw(rt, "node") }
		rt.Repeat(map[string]func(*rapid.T){
			"submit": func(rt *rapid.T) {
				last++
				j := cluster.Job{ID: last, Name: "a", Ranks: rapid.IntRange(1, 7).Draw(rt, "ranks"), Whole: rapid.Bool().Draw(rt, "whole")}
				both(func(h *cluster.Head) []cluster.Decision { return h.Submit(j) })
			},
			"end": func(rt *rapid.T) {
				id := schedulers.JobID(rapid.IntRange(1, int(last)+1).Draw(rt, "job"))
				both(func(h *cluster.Head) []cluster.Decision { return h.JobEnded(id) })
			},
			"down": func(rt *rapid.T) {
				i := node(rt)
				both(func(h *cluster.Head) []cluster.Decision { return h.NodeDown(i) })
			},
			"up": func(rt *rapid.T) {
				i := node(rt)
				both(func(h *cluster.Head) []cluster.Decision { return h.NodeUp(i) })
			},
		})
	})
}

// A program keeps the rules of all heads, with offload and without, whether it lets jobs wait or not.
func TestProgramsKeepTheRules(t *testing.T) {
	fits := func(j cluster.Job, nodes []cluster.NodeView, _ int) []cluster.Share {
		for i, n := range nodes {
			if n.Open && n.Weight-n.Assigned >= j.Ranks && n.Waiting == 0 {
				return []cluster.Share{{Node: i, Ranks: j.Ranks}}
			}
		}
		return nil
	}
	for _, policy := range []string{"exec:./p", "exec:./p+offload:threshold=2"} {
		for name, assign := range map[string]func(cluster.Job, []cluster.NodeView, int) []cluster.Share{"in turn": inTurn, "fits": fits} {
			t.Run(policy+" "+name, func(t *testing.T) {
				chance.Check(t, schedtest.Head(func() (cluster.Policy, error) { return decided(t, policy, &decider{assign: assign}), nil }))
			})
		}
	}
}

// What a program is told, and when.
func TestWhatAProgramIsAsked(t *testing.T) {
	var asked []string
	d := &decider{}
	full := true
	d.assign = func(j cluster.Job, nodes []cluster.NodeView, latest int) []cluster.Share {
		asked = append(asked, fmt.Sprintf("%d after %d: %v", j.ID, latest, nodes))
		if full {
			return nil
		}
		return []cluster.Share{{Node: 1, Ranks: j.Ranks - 1}, {Node: 0, Ranks: 1}}
	}
	h, err := cluster.New(decided(t, "exec:./p", d), []cluster.Node{{Name: "n1", Devices: 4, Weight: 7, Cores: 9}, {Name: "n2", Devices: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		call, decided string
		full          bool
		asked         string
	}{
		{"1 4 mm", "1 refused: the policy gives job 1 no nodes, although nothing runs on the cluster", true, "1 after -1: [{4 7 9 0 0 true} {3 3 0 0 0 true}]"},
		{"2 4 mm", "2 > n1:1 n2:3", false, "2 after -1: [{4 7 9 0 0 true} {3 3 0 0 0 true}]"},
		{"load n2 2", "", false, ""},
		{"3 4 mm", "", true, "3 after 0: [{4 7 9 1 0 true} {3 3 0 3 2 true}]"},
		{"4 4 mm", "", true, "3 after 0: [{4 7 9 1 0 true} {3 3 0 3 2 true}]"}, // nobody passes it
		{"load n2 0", "", true, "3 after 0: [{4 7 9 1 0 true} {3 3 0 3 0 true}]"},
		{"down n1", "2 < n1:1 n2:3 (job 2 is lost: node n1 is down)", true, "3 after 0: [{4 7 9 0 0 false} {3 3 0 0 0 true}]"}, // a node may come back
		{"down n2", "", true, ""}, // none is open
		{"end 3", "", true, ""},
		{"up n2", "", true, "4 after 0: [{4 7 9 0 0 false} {3 3 0 0 0 true}]"},
		{"up n1", "4 > n1:1 n2:3", false, "4 after 0: [{4 7 9 0 0 true} {3 3 0 0 0 true}]"},
		{"5 4 mm", "", true, "5 after 0: [{4 7 9 1 0 true} {3 3 0 3 0 true}]"},
		{"end 4", "5 refused: the policy gives job 5 no nodes, although nothing runs on the cluster", true, "5 after 0: [{4 7 9 0 0 true} {3 3 0 0 0 true}]"},
	} {
		asked, full = nil, s.full
		if got := text(call(t, h, s.call)); got != s.decided || strings.Join(asked, ", ") != s.asked {
			t.Errorf("%s: it decides %q, want %q, and was asked %q, want %q", s.call, got, s.decided, asked, s.asked)
		}
	}
	d.err = errors.New("it has ended")
	if got := text(call(t, h, "6 4 mm")); got != "" || h.Err() != d.err {
		t.Errorf("a program that can decide no more decides %q, %v", got, h.Err())
	}
}

// Where the program of a head ends, and the scheduler of each node begins.
func TestCutPrograms(t *testing.T) {
	for text, want := range map[string][2]string{
		"exec:./head.py/case-alg3":                     {"exec:./head.py/", "case-alg3"},
		"exec:head.py/vgpu:n=2":                        {"exec:head.py/", "vgpu:n=2"},
		"exec:/opt/plan/head.py/exec:/opt/plan/p.py":   {"exec:/opt/plan/head.py/", "exec:/opt/plan/p.py"},
		"own:=exec:../h,timeout=2s+offload/sa":         {"own:=exec:../h,timeout=2s+offload/", "sa"},
		"coloc:nodes=2/exec:./plan":                    {"coloc:nodes=2/", "exec:./plan"},
		"exec:bin/plan":                                {"exec:bin/", "plan"},
		"exec:path=bin/plan":                           {"", "exec:path=bin/plan"},
		"exec:./plan":                                  {"", "exec:./plan"},
		"exec:/plan":                                   {"", "exec:/plan"},
		"exec:../plan":                                 {"", "exec:../plan"},
		"exec:./policy.py,queue=fifo":                  {"", "exec:./policy.py,queue=fifo"},
		"exec:./policies/case-alg3.py":                 {"", "exec:./policies/case-alg3.py"},
		"exec:./head.py/case-alg9":                     {"", "exec:./head.py/case-alg9"},
		"exec:./head.py,sha256=0123456789ab/case-alg3": {"exec:./head.py,sha256=0123456789ab/", "case-alg3"},
	} {
		if head, node := cluster.Cut(text); head != want[0] || node != want[1] {
			t.Errorf("%s: %q and %q, want %q", text, head, node, want)
		}
	}
}

// Sweeps keep schedulers so that they mean the present content of their programs, from whatever folder.
func TestSweepsKeepPrograms(t *testing.T) {
	const head, node = "0123456789ab", "ba9876543210"
	for text, want := range map[string][3]string{ // pinned, in a folder, named
		"exec:./h+.py/sa": {"exec:./h+.py,sha256=" + head + "/sa", "exec:/f/h+.py/sa", "exec:h+.py,sha256=" + head + "/sa"},
		"a:=exec:h,timeout=2s+offload/exec:p": {"a:=exec:h,timeout=2s,sha256=" + head + "+offload/exec:p,sha256=" + node,
			"a:=exec:/f/h,timeout=2s+offload/exec:path=/f/p", "exec:h,sha256=" + head + ",timeout=2s+offload/exec"},
		"coloc/exec:d/p,queue=fifo": {"coloc/exec:d/p,queue=fifo,sha256=" + node, "coloc/exec:path=/f/d/p,queue=fifo", "coloc/exec"},
		"coloc:nodes=2+offload/sa":  {"coloc:nodes=2+offload/sa", "coloc:nodes=2+offload/sa", "coloc:nodes=2+offload/sa"},
		"exec:d/p":                  {"exec:d/p,sha256=" + node, "exec:path=/f/d/p", "exec"},
		"case-alg3":                 {"case-alg3", "case-alg3", "case-alg3"},
	} {
		s, err := cluster.ParseScheduler(text, 2, policies.Parse)
		if err != nil {
			t.Fatal(err)
		}
		if s.Program != nil {
			s = s.Pinned(node)
		}
		if p, is := s.Head.(cluster.Policy); is && p.Program() != nil {
			s = p.Pinned(head).Over(s)
		}
		pinned := cluster.PinnedText(s, text)
		if pinned != want[0] || cluster.PinnedText(s, pinned) != pinned || cluster.InFolder("/f", text) != want[1] || s.Name != want[2] {
			t.Errorf("%s: pinned %s, in a folder %s, named %s, want %q", text, pinned, cluster.InFolder("/f", text), s.Name, want)
		}
		again, err := cluster.ParseScheduler(pinned, 2, policies.Parse)
		if err != nil || again.Name != s.Name || again.Parameters() != s.Parameters() {
			t.Errorf("%s: pinned it is %s %s, %v", text, again.Name, again.Parameters(), err)
		}
		if !cluster.IsPinned(pinned, text) || cluster.IsPinned(pinned, strings.Replace(text, "p", "q", 1)+"x") {
			t.Errorf("%s: what is pinned is not told from others", text)
		}
		if texts, err := cluster.Spread(text); err != nil || !slices.Equal(texts, []string{text}) {
			t.Errorf("%s: stands for %q, %v", text, texts, err)
		}
	}
}
