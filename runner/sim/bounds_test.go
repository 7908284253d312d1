package sim

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/benchmarks/profiles"
	"github.com/caserun/caserun/benchmarks/profiles/profilestest"
	"github.com/caserun/caserun/docs/pagetest"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/runner"
)

// The lower bounds of docs/bounds.md: what the jobs do, for benchmarks/bounds/bounds.py, and its
// results.
const (
	boundJobs = "../../benchmarks/bounds/jobs.csv"
	bounds    = "../../benchmarks/bounds/bounds.csv"
)

// boundNode is a node of which there are bounds.
type boundNode struct {
	name     string
	node     Node
	profiles profiles.Set // before the catalog's
	mixes    []string
}

// boundNodes are in the order of the files. Devices of 16 GiB are as with --mem-cap.
func boundNodes(t testing.TB) []boundNode {
	return []boundNode{
		{"4xV100", mustNode(t, "sim:4xV100"), profiles.Set{}, mixNames},
		{"2xP100", mustNode(t, "sim:2xP100"), profiles.Set{}, mixNames},
		{"4xH200", mustNode(t, "sim:4xH200"), profiles.Set{}, mixNames},
		{"4xH200 of 16 GiB", mustNode(t, "sim:4xH200").Capped(16 << 30), profiles.Set{}, mixNames},
		{"4xH100 of 16 GiB", mustNode(t, "sim:4xH100").Capped(16 << 30), profilestest.Suite(t), mixNames},
		{"2xH100 of 16 GiB", mustNode(t, "sim:2xH100").Capped(16 << 30), profilestest.Suite(t), halfMixes},
	}
}

// boundNodesByName are the same.
func boundNodesByName(t testing.TB) map[string]boundNode {
	byName := map[string]boundNode{}
	for _, n := range boundNodes(t) {
		byName[n.name] = n
	}
	return byName
}

// phases are the steps of a job in the three parts of its life, as RESOURCE:DEMAND:SECONDS. They are
// scaled as the node scales them.
func phases(t testing.TB, n boundNode, j mixes.Job) (before, held, after string) {
	t.Helper()
	x := &Executor{config: Config{Node: n.node, Profiles: profiles.Catalog().With(n.profiles)}}
	k, err := x.makeKind(&j)
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
				line(n.name, n.node.Count, n.node.Cores(), n.node.Devices(true)[0].CapacityBytes, mix, j.Command(), count[j.Command()],
					j.Footprint.Bytes+runner.DefaultContextBytes, before, held, after)
			}
		}
	}
	w.Flush()
	return text.String()
}

func TestJobsOfTheBounds(t *testing.T) {
	want := jobsOfBounds(t)
	if *pagetest.Update {
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
		t.Errorf("%s is not what the profiles and the model say: run this test with -update, then benchmarks/bounds/bounds.py, then this test again", boundJobs)
	}
}

// bound is a line of bounds.csv.
type bound struct {
	node, mix                  string
	simpleS, makespanS, turnsS float64
	digest                     string
}

func readBounds(t testing.TB) (out []bound) {
	t.Helper()
	f, err := os.Open(bounds)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) == 0 || strings.Join(rows[0], ",") != "node,mix,simple_makespan_s,makespan_s,turnaround_mean_s,jobs_sha256" {
		t.Fatalf("%s: %v (%v)", bounds, rows, err)
	}
	for _, row := range rows[1:] {
		b := bound{node: row[0], mix: row[1], digest: row[5]}
		for i, to := range []*float64{&b.simpleS, &b.makespanS, &b.turnsS} {
			if *to, err = strconv.ParseFloat(row[2+i], 64); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, b)
	}
	return out
}

// No simulated run is better than its bound. The bounds are of today's profiles.
func TestNoScheduleIsBetterThanItsBound(t *testing.T) {
	text, err := os.ReadFile(boundJobs)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[[2]string][]string{}
	for line := range strings.Lines(string(text)) {
		fields, err := csv.NewReader(strings.NewReader(line)).Read()
		if err != nil {
			t.Fatal(err)
		}
		batch := [2]string{fields[0], fields[4]}
		lines[batch] = append(lines[batch], strings.TrimSuffix(line, "\n"))
	}
	nodes, found := boundNodesByName(t), readBounds(t)
	want := 0
	for _, n := range nodes {
		want += len(n.mixes)
	}
	if len(found) != want {
		t.Errorf("%s has %d bounds, want %d", bounds, len(found), want)
	}
	for _, b := range found {
		sum := sha256.Sum256([]byte(strings.Join(lines[[2]string{b.node, b.mix}], "\n")))
		if hex.EncodeToString(sum[:]) != b.digest {
			t.Errorf("%s: %s on %s is of other jobs than %s has: run benchmarks/bounds/bounds.py", bounds, b.mix, b.node, boundJobs)
		}
		if !(b.makespanS >= b.simpleS && b.simpleS > 0 && b.turnsS > 0) {
			t.Errorf("%s: %+v", bounds, b)
		}
		for _, scheduler := range []string{"sa", "case-alg3", "case-alg3:queue=fifo", "schedgpu"} {
			m := trial{node: nodes[b.node].node, profiles: nodes[b.node].profiles, scheduler: scheduler}.metrics(t, b.mix)
			if m.OK != len(mixJobs(t, b.mix)) {
				t.Errorf("%s on %s under %s: %d jobs ended ok", b.mix, b.node, scheduler, m.OK)
			}
			// The bounds have three digits after the point.
			if *m.MakespanS < b.makespanS-0.001 || *m.TurnaroundMeanS < b.turnsS-0.001 {
				t.Errorf("%s on %s under %s: makespan %.3f s and mean turnaround %.3f s, but no schedule can be better than %.3f and %.3f",
					b.mix, b.node, scheduler, *m.MakespanS, *m.TurnaroundMeanS, b.makespanS, b.turnsS)
			}
		}
	}
}

// boundsTable has each bound beside what case-alg3 reaches in simulation.
func boundsTable(t testing.TB) string {
	nodes := boundNodesByName(t)
	rows := [][]string{{"node", "mix", "makespan: bound, s", "case-alg3, s", "over the bound", "mean turnaround: bound, s", "case-alg3, s", "over the bound"}}
	for _, b := range readBounds(t) {
		m := trial{node: nodes[b.node].node, profiles: nodes[b.node].profiles, scheduler: "case-alg3"}.metrics(t, b.mix)
		seconds := func(s float64) string { return fmt.Sprintf("%.2f", s) }
		rows = append(rows, []string{b.node, b.mix, seconds(b.makespanS), seconds(*m.MakespanS), seconds(*m.MakespanS / b.makespanS),
			seconds(b.turnsS), seconds(*m.TurnaroundMeanS), seconds(*m.TurnaroundMeanS / b.turnsS)})
	}
	return pagetest.Markdown(rows)
}

func TestThePageShowsTheBounds(t *testing.T) {
	pagetest.Shows(t, "../../docs/bounds.md", pagetest.Table{Name: "bounds", Generate: boundsTable})
}
