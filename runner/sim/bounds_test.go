package sim

import (
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
	"github.com/caserun/caserun/runner/profiles"
	"github.com/caserun/caserun/runner/profiles/profilestest"
)

// boundJobs is what the jobs do of which docs/design/bounds.md has bounds, for benchmarks/bounds/bounds.py. Package docs/pages
// tests its results.
const boundJobs = "../../benchmarks/bounds/jobs.csv"

var update = flag.Bool("update", false, "write "+boundJobs+", and the table of models")

// boundNode is a node of which there are bounds.
type boundNode struct {
	name     string
	node     Node
	profiles profiles.Set // before the catalog's
	mixes    []string
}

// boundNodes are in the order of the files. Devices of 16 GiB are as with --mem-cap.
func boundNodes(t testing.TB) []boundNode {
	suite, err := profilestest.Suite("../..")
	if err != nil {
		t.Fatal(err)
	}
	return []boundNode{
		{"4xV100", mustNode(t, "sim:4xV100"), profiles.Set{}, mixNames},
		{"2xP100", mustNode(t, "sim:2xP100"), profiles.Set{}, mixNames},
		{"4xH200", mustNode(t, "sim:4xH200"), profiles.Set{}, mixNames},
		{"4xH200 of 16 GiB", mustNode(t, "sim:4xH200").Capped(16 << 30), profiles.Set{}, mixNames},
		{"4xH100 of 16 GiB", mustNode(t, "sim:4xH100").Capped(16 << 30), suite, mixNames},
		{"2xH100 of 16 GiB", mustNode(t, "sim:2xH100").Capped(16 << 30), suite, halfMixes},
	}
}

// phases are the steps of a job in the three parts of its life, as RESOURCE:DEMAND:SECONDS. They are
// scaled as the node scales them.
func phases(t testing.TB, n boundNode, j mixes.Job) (before, held, after string) {
	t.Helper()
	x := &Executor{config: Config{Node: n.node, Profiles: profiles.Catalog().With(n.profiles)}}
	k, err := x.makeKind(&j, 0)
	if err != nil {
		t.Fatal(err)
	}
	if k.rounds > 1 {
		t.Fatalf("%s has rounds, and the bounds ignore rounds", j.Command())
	}
	p := &process{x: x, kind: &k}
	names := map[resource]string{cores: "cores", link: "link", sms: "sms"}
	part := &before
	for _, s := range p.plan() {
		switch s.Kind {
		case profiles.Allocate:
			part = &held
		case profiles.Free:
			part = &after
		default:
			*part += fmt.Sprintf(" %s:%s:%s", names[s.on], strconv.FormatFloat(s.demand, 'g', 6, 64), strconv.FormatFloat(s.soloS, 'f', 6, 64))
		}
	}
	return strings.TrimSpace(before), strings.TrimSpace(held), strings.TrimSpace(after)
}

// jobsOfBounds has a line for each command of a mix on a node.
func jobsOfBounds(t testing.TB) string {
	var text strings.Builder
	w := csv.NewWriter(&text)
	line := func(fields ...any) {
		var row []string
		for _, f := range fields {
			row = append(row, fmt.Sprint(f))
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	line("node", "devices", "cores", "capacity_bytes", "mix", "command", "count", "bytes", "before", "held", "after")
	for _, n := range boundNodes(t) {
		for _, mix := range n.mixes {
			count := map[string]int{}
			var first []mixes.Job
			for _, j := range mixJobs(t, mix) {
				if count[j.Command()]++; count[j.Command()] == 1 {
					first = append(first, j)
				}
			}
			for _, j := range first {
				before, held, after := phases(t, n, j)
				line(n.name, n.node.Count(), n.node.Host.Cores, n.node.Devices(true)[0].CapacityBytes, mix, j.Command(), count[j.Command()],
					j.Footprint.Bytes+runner.DefaultContextBytes, before, held, after)
			}
		}
	}
	w.Flush()
	return text.String()
}

func TestJobsOfTheBounds(t *testing.T) {
	want := jobsOfBounds(t)
	if *update {
		if err := os.WriteFile(boundJobs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(boundJobs)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != want {
		t.Errorf("%s is not what the profiles and the model say: run this test with -update, then benchmarks/bounds/bounds.py, then go test -tags full ./docs/pages -update", boundJobs)
	}
}

// Runs of these batches leave nothing on their nodes. Package docs/pages holds them to their bounds.
func TestBatchesOfTheBoundsLeaveNothing(t *testing.T) {
	for _, n := range boundNodes(t) {
		for _, mix := range n.mixes {
			for _, scheduler := range []string{"sa", "case-alg3", "case-alg3:queue=fifo", "schedgpu"} {
				trial{node: n.node, profiles: n.profiles, scheduler: scheduler, jobs: mixJobs(t, mix)}.must(t)
			}
		}
	}
}
