package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

var boundsPage = page{"docs/design/bounds.md", []table{{"bounds", boundsTable}}}

// bound is a line of bounds.csv: what no schedule of a mix on a node is better than.
type bound struct {
	node, mix                  string
	simpleS, makespanS, turnsS float64
	digest                     string // of the lines of jobs.csv from which it was computed
}

var bounds = sync.OnceValue(func() (out []bound) {
	rows := readCSV("benchmarks/bounds/bounds.csv")
	if len(rows) == 0 || strings.Join(rows[0], ",") != "node,mix,simple_makespan_s,makespan_s,turnaround_mean_s,jobs_sha256" {
		fail("bounds.csv has other columns")
	}
	for _, row := range rows[1:] {
		number := func(i int) float64 { return must(strconv.ParseFloat(row[i], 64)) }
		out = append(out, bound{row[0], row[1], number(2), number(3), number(4), row[5]})
	}
	return out
})

func boundOf(node, mix string) bound {
	for _, b := range bounds() {
		if b.node == node && b.mix == mix {
			return b
		}
	}
	fail("bounds.csv has no line for %s on %s", mix, node)
	return bound{}
}

func readCSV(path string) [][]string {
	f := must(os.Open(path))
	defer f.Close()
	return must(csv.NewReader(f).ReadAll())
}

// boundsTable has each bound beside what case-alg3 reaches in simulation.
func boundsTable() string {
	rows := [][]string{{"node", "mix", "makespan: bound, s", "case-alg3, s", "over the bound", "mean turnaround: bound, s", "case-alg3, s", "over the bound"}}
	for _, b := range bounds() {
		m := nodeOf(b.node).run("case-alg3", b.mix)
		seconds := func(s float64) string { return fmt.Sprintf("%.2f", s) }
		rows = append(rows, []string{b.node, b.mix, seconds(b.makespanS), seconds(*m.MakespanS), seconds(*m.MakespanS / b.makespanS),
			seconds(b.turnsS), seconds(*m.TurnaroundMeanS), seconds(*m.TurnaroundMeanS / b.turnsS)})
	}
	return markdown(rows)
}
