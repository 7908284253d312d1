package external

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/schedulers/cluster"
	"github.com/caserun/caserun/schedulers/policies"
)

func startHead(t *testing.T, text string) Head {
	t.Helper()
	h, err := StartHead(policies.Program{Path: script(t, text), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// twoNodes are open to a job of four ranks.
var twoNodes = []cluster.NodeView{{Devices: 4, Weight: 8, Cores: 64, Assigned: 3, Waiting: 1, Open: true}, {Devices: 2, Weight: 2, Open: true}, {Devices: 4}}

// Each question of a head says all that the head knows, and its answer is what happens.
func TestQuestionsOfAHead(t *testing.T) {
	h := startHead(t, `exec 3>"$0.log"
read q; echo "$q" >&3; echo '{"id":0,"protocol":1}'
read q; echo "$q" >&3; echo '{"id":1,"shares":[{"node":1,"ranks":3},{"ranks":1,"node":0}]}'
read q; echo "$q" >&3; echo '{"id":2,"shares":[]}'
cat >/dev/null`)
	job := cluster.Job{ID: 7, Name: "a", Ranks: 4}
	if got, want := h.Assign(job, twoNodes, -1), []cluster.Share{{Node: 1, Ranks: 3}, {Node: 0, Ranks: 1}}; !cmp.Equal(got, want) {
		t.Errorf("it gets %v, want %v: %v", got, want, h.Err())
	}
	job.Kind, job.Class, job.Whole = cluster.Computation, cluster.Long, true
	if got := h.Assign(job, twoNodes[:1], 2); got != nil {
		t.Errorf("it gets %v, want nothing: %v", got, h.Err())
	}
	if want := `of 2 questions which nodes a job gets it answered 1 with no shares, which is to wait; its last answer was "{\"id\":2,`; !strings.Contains(h.Answers(), want) {
		t.Errorf("%s, want %s", h.Answers(), want)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(h.program.Path + ".log")
	if err != nil {
		t.Fatal(err)
	}
	first := `{"node":0,"devices":4,"weight":8,"cores":64,"assigned":3,"waiting":1,"open":true}`
	want := `{"id":0,"kind":"hello","protocol":1,"slots_per_warp":1024}
{"id":1,"kind":"assign","job":{"id":7,"name":"a","ranks":4,"one_node":false,"sensitive":"communication","long":false},"latest":null,"nodes":[` + first +
		`,{"node":1,"devices":2,"weight":2,"cores":0,"assigned":0,"waiting":0,"open":true},{"node":2,"devices":4,"weight":0,"cores":0,"assigned":0,"waiting":0,"open":false}]}
{"id":2,"kind":"assign","job":{"id":7,"name":"a","ranks":4,"one_node":true,"sensitive":"computation","long":true},"latest":2,"nodes":[` + first + "]}\n"
	if diff := cmp.Diff(want, string(log)); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// Answers of a head that cannot be end it, and say why.
func TestAnswersOfAHeadThatCannotBe(t *testing.T) {
	for shares, want := range map[string]string{
		`{"id":1}`:                               "it has no shares: want a list, which is empty if the job must wait",
		`{"id":1,"shares":null}`:                 "shares is null",
		`{"id":1,"shares":[null]}`:               "shares is null or has null in it",
		`{"id":1,"device":0}`:                    `unknown field "device"`,
		`{"id":1,"shares":[{"nodes":1}]}`:        `unknown field "nodes"`,
		`{"id":1,"shares":[{"Node":1}]}`:         `the key "Node" must be written "node"`,
		`{"id":1,"shares":[{"ranks":4}]}`:        "share 0 has no node: want its number",
		share1(`{"node":3,"ranks":4}`):           "node 3: the cluster has nodes 0 to 2",
		share1(`{"node":-1,"ranks":4}`):          "node -1: the cluster has nodes 0 to 2",
		share1(`{"node":2,"ranks":4}`):           "node 2, which is not open to the job",
		share1(`{"node":0}`):                     "0 ranks for node 0: want 1 to 4",
		share1(`{"node":0,"ranks":-1}`):          "-1 ranks for node 0: want 1 to 4",
		share1(`{"node":0,"ranks":5}`):           "5 ranks for node 0: want 1 to 4",
		share1(`{"node":0,"ranks":3}`):           "it gives nodes 3 ranks, and the job has 4: each rank goes to one node, once",
		share2(`"node":0,"ranks":3`):             "it gives nodes 5 ranks, and the job has 4: each rank goes to one node, once",
		share2(`"node":1,"ranks":2`):             "node 1 has two shares: give it one with all its ranks",
		share2(`"node":0,"ranks":2`):             "it gives the job 2 nodes, and all its ranks must be on one",
		`hello`:                                  "invalid character 'h'",
		`{"id":1,"shares":[],"shares":[]}`:       `the key "shares" is there twice`,
		`{"id":1,"shares":[{"node":0,"node":1}]`: "is not valid",
	} {
		h := startHead(t, greets("")+`read question; echo '`+shares+`'; read more`)
		got := h.Assign(cluster.Job{ID: 3, Name: "mm", Ranks: 4, Whole: true}, twoNodes, -1)
		if text := fmt.Sprint(h.Err()); got != nil || !strings.Contains(text, want) || !strings.HasPrefix(text, "policy "+h.program.Path+": asked to assign job 3 (mm): its answer ") {
			t.Errorf("%s: %v, %s, want %s", shares, got, text, want)
		}
	}
}

func share1(share string) string { return `{"id":1,"shares":[` + share + `]}` }
func share2(first string) string { return share1(`{` + first + `},{"node":1,"ranks":2}`) }

// What a program says that decides for one node means nothing to a head.
func TestGreetingsOfAHead(t *testing.T) {
	for fields, want := range map[string]string{
		`"protocol":2`:                    "it speaks protocol 2, and a program that decides for a cluster speaks protocol 1",
		`"protocol":1,"promises":[]`:      "only id and protocol are of a program that decides for a cluster: leave the other fields out",
		`"protocol":1,"sms":true`:         "leave the other fields out",
		`"protocol":1,"takes_back":true`:  "leave the other fields out",
		`"protocol":1,"asks":["grow"]`:    "leave the other fields out",
		`"protocol":1,"look_every_ns":50`: "leave the other fields out",
	} {
		_, err := StartHead(policies.Program{Path: script(t, `read hello; echo '{"id":0,`+fields+`}'; read more`), Timeout: time.Second})
		if err == nil || !strings.Contains(err.Error(), "asked to greet: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", fields, err, want)
		}
	}
}
