package pages

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/caserun/caserun/results"
)

var boundsPage = page{"docs/design/bounds.md", []table{{"bounds", boundsTable}}}

// bound is a line of bounds.csv: what no schedule of a mix on a node is better than.
type bound struct {
	node, mix                  string
	simpleS, makespanS, turnsS float64
	digest                     string // of the lines of jobs.csv from which it was computed
}

// bounded are the quantities that have bounds.
var bounded = []struct {
	name  string
	value func(results.Metrics) float64
	bound func(bound) float64
}{
	{"makespan", makespan, func(b bound) float64 { return b.makespanS }},
	{"mean turnaround", meanTurnaround, func(b bound) float64 { return b.turnsS }},
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

// boundsTable has all bounds, and by how much case-alg3 is above them in the geometric mean of a node's mixes. Half a mix
// stands below the whole one.
func boundsTable() string {
	rows := [][]string{append(append([]string{"node", "bound, s"}, mixNames...), "case-alg3 over it")}
	for _, n := range nodes() {
		for _, of := range bounded {
			row := []string{n.name, of.name}
			var overs []float64
			for _, whole := range mixNames {
				cell := ""
				for _, mix := range n.mixes {
					if mix == whole || mix == whole+"-half" {
						b := of.bound(boundOf(n.name, mix))
						cell = fmt.Sprintf("%.2f", b)
						overs = append(overs, n.repeated("case-alg3", mix).median(of.value)/b)
					}
				}
				row = append(row, cell)
			}
			rows = append(rows, append(row, fmt.Sprintf("%.2f", geometric(overs))))
		}
	}
	return markdown(rows)
}
