package paper

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// case_ppopp22.csv has every value of Tables 3, 4, 6, 7 and 8, and the values of Figures 5 to 9 that
// the text states. Percentages are fractions. Schedulers are written as policies.Parse reads them; cg
// has no number of workers if the paper gives none.

// Value is one published number.
type Value struct {
	Source    string // "Table 7", "Figure 6a", "section 5.2.4"
	System    string // "4xV100"
	Workload  string // a mix, a large:small ratio, or what was aggregated
	Scheduler string
	Metric    string
	Value     float64
	Unit      string // "jobs/s", "s", "ratio" or "fraction"
}

//go:embed case_ppopp22.csv
var caseValues string

var loadValues = sync.OnceValues(func() ([]Value, error) { return parseValues("case_ppopp22.csv", caseValues) })

// Published returns the values of one source and system, such as "Table 7" and "4xV100", in the paper's
// order. It returns an error if the paper has no such values.
func Published(source, system string) ([]Value, error) {
	all, err := loadValues()
	if err != nil {
		return nil, err
	}
	var out []Value
	for _, v := range all {
		if v.Source == source && v.System == system {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("published values: nothing from %q on %q", source, system)
	}
	return out, nil
}

var valueHeader = []string{"source", "system", "workload", "scheduler", "metric", "value", "unit"}

func parseValues(file, text string) ([]Value, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = len(valueHeader)
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read published values %s: %w", file, err)
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != strings.Join(valueHeader, ",") {
		return nil, fmt.Errorf("read published values %s: want the header %s", file, strings.Join(valueHeader, ","))
	}
	var out []Value
	for i, row := range rows[1:] {
		v, err := strconv.ParseFloat(row[5], 64)
		if err != nil {
			return nil, fmt.Errorf("read published values %s: line %d: value %q is not a number", file, i+2, row[5])
		}
		out = append(out, Value{row[0], row[1], row[2], row[3], row[4], v, row[6]})
	}
	return out, nil
}
