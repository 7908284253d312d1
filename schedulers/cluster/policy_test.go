package cluster_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers/cluster"
)

func TestParseSaysWhatToDo(t *testing.T) {
	for policy, want := range map[string]string{
		"":                            `unknown cluster policy "": known are cluster-batch, cluster-rr, coloc, latency`,
		"colloc":                      `unknown cluster policy "colloc": did you mean coloc?`,
		"offload":                     "cluster policy offload moves what another policy has assigned: write it after one, as in coloc+offload:threshold=8",
		"coloc:node=1":                `scheduler coloc: parameter "node=1": want key=value with a key of nodes, weights, literal: did you mean nodes?`,
		"coloc:nodes=0":               "scheduler coloc: nodes=0: want a whole number of 1 or more, all or kind",
		"coloc:weights=4:x":           "scheduler coloc: weights=4:x: want gpus, sms, both, or a whole number from 1 to 1048576 for each node, such as 4:8:4",
		"coloc:weights=4:0":           "scheduler coloc: weights=4:0: want gpus, sms, both, or a whole number from 1 to 1048576 for each node, such as 4:8:4",
		"coloc:literal=yes":           "scheduler coloc: literal=yes: use false or true",
		"coloc:literal=true,nodes=2":  "scheduler coloc: nodes=2: the printed listing has no such bound: leave it out, or literal",
		"latency:limit=-1":            "scheduler latency: limit=-1: want a whole number of 0 or more",
		"latency:literal=true":        `scheduler latency: parameter "literal=true": want key=value with a key of nodes, weights, limit`,
		"coloc+rr":                    `scheduler "coloc+rr": after + want offload or offload:threshold=8`,
		"coloc+offload:threshold=":    `scheduler "offload:threshold=": threshold has no value: give it one, or leave it out`,
		"coloc+offload:threshold=1.5": "scheduler offload: threshold=1.5: want a whole number of 0 or more",
	} {
		if _, err := cluster.Parse(policy); err == nil || err.Error() != want {
			t.Errorf("%q:\n got %v\nwant %s", policy, err, want)
		}
	}
}

func TestNewSaysWhatToDo(t *testing.T) {
	for _, test := range []struct {
		policy, want string
		nodes        []cluster.Node
	}{
		{"coloc", "scheduler coloc: the cluster has no nodes: name one", nil},
		{"cluster-rr", "scheduler cluster-rr: node n1 has 0 devices: leave it out", []cluster.Node{{Name: "n1"}}},
		{"coloc:weights=1:2", "scheduler coloc: weights=1:2: want one for each of the cluster's 3 nodes", highEnd},
		{"coloc:weights=sms", "scheduler coloc: weights=sms: the cores of node n2 are unknown: use gpus, or a number for each node",
			[]cluster.Node{highEnd[0], {Name: "n2", Devices: 1}}},
	} {
		p, err := cluster.Parse(test.policy)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.New(p, test.nodes); err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.policy, err, test.want)
		}
	}
}

// The weights of section 4.4.4's cluster: as many ranks of ADFA as fit. WG1 is the seed's; it gives 4:8:4 for WG2 and 8:4:4 for
// WG3, without a rule.
func TestWeights(t *testing.T) {
	for weights, want := range map[string]string{
		"gpus":  "1 > n1:4 n2:3 n3:2",
		"sms":   "1 > n2:8 n3:6 n1:4",
		"both":  "1 > n2:5 n1:4 n3:4",
		"4:8:4": "1 > n2:8 n1:4 n3:4",
		"8:4:4": "1 > n1:8 n2:4 n3:4",
	} {
		ranks := map[string]string{"gpus": "9", "sms": "18", "both": "13", "4:8:4": "16", "8:4:4": "16"}[weights]
		h := newHead(t, "coloc:weights="+weights, highEnd...)
		if got := text(call(t, h, "1 "+ranks+" adfa")); got != want {
			t.Errorf("%s: got %s, want %s", weights, got, want)
		}
		if got := call(t, h, "2 1 adfa"); got != nil {
			t.Errorf("%s: more room than %s: %s", weights, ranks, text(got))
		}
	}
}

func TestThePageHasWhatIsListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, info := range cluster.Listed() {
		names = append(names, info.Name)
		text := info.Name
		if text == "offload" {
			text = "coloc+offload"
		}
		for i, p := range info.Params { // each default is a value
			row := regexp.MustCompile("(?m)^\\| `" + p.Name + "` \\| [^|]*`" + info.Name + "`[^|]*\\| `?" + p.Default + "`? \\|")
			if !row.Match(page) {
				t.Errorf("docs/design/cluster.md has no row of %s of %s with the default %s", p.Name, info.Name, p.Default)
			}
			text += []string{":", ","}[min(i, 1)] + p.Name + "=" + p.Default
		}
		if _, err := cluster.Parse(text); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(names, " "); got != "cluster-batch cluster-rr coloc latency offload" {
		t.Errorf("listed are %s", got)
	}
}
