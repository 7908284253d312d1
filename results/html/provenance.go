package html

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/report"
)

// environment is the environment that some of the runs share.
type environment struct {
	Runs     string
	Facts    []fact
	Binaries *report.Table
}

// environments groups the runs by their environments, so that differences are visible.
func environments(runs []results.Run) []environment {
	var order []string
	members := map[string][]results.Run{}
	for _, r := range runs {
		p := r.Provenance
		k := fmt.Sprintf("%q", []string{p.Version, p.Revision, p.Host, p.Kernel, p.CPU, fmt.Sprint(p.Cores), fmt.Sprint(p.MemoryBytes),
			orNone(p.Driver), orNone(p.CUDA), p.Binaries})
		if members[k] == nil {
			order = append(order, k)
		}
		members[k] = append(members[k], r)
	}
	var out []environment
	for _, k := range order {
		own := members[k]
		out = append(out, newEnvironment(own[0].Provenance, own))
	}
	return out
}

func newEnvironment(p results.Provenance, own []results.Run) environment {
	var ids []int64
	for _, r := range own {
		ids = append(ids, r.ID)
	}
	e := environment{Runs: ranges(ids), Binaries: &report.Table{Columns: []report.Column{{Name: "File"}, {Name: "SHA-256", Class: "code"}}}, Facts: []fact{
		{"caserun", orDash(p.Version)}, {"Revision", orDash(p.Revision)}, {"Host", orDash(p.Host)}, {"Kernel", orDash(p.Kernel)}, {"CPU", orDash(p.CPU)},
		{"Cores", fmt.Sprint(p.Cores)}, {"Memory", report.Human(float64(p.MemoryBytes), report.Bytes)},
		{"NVIDIA driver", orNone(p.Driver)}, {"CUDA", orNone(p.CUDA)},
	}}
	var hashes map[string]string
	if json.Unmarshal([]byte(p.Binaries), &hashes) == nil {
		e.Binaries.Page.Label = "Binaries of runs " + e.Runs
		for _, program := range slices.Sorted(maps.Keys(hashes)) {
			e.Binaries.Add(program, hashes[program])
		}
	}
	return e
}

func orNone(s *string) string {
	if s == nil {
		return "none: no device was used"
	}
	return orDash(*s)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return line(s)
}

// ranges returns the numbers in order, as "1 to 3, 7".
func ranges(ids []int64) string {
	ids = slices.Sorted(slices.Values(ids))
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, fmt.Sprint(ids[i]))
		case 1:
			parts = append(parts, fmt.Sprint(ids[i]), fmt.Sprint(ids[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// configuration indents JSON for reading.
func configuration(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return printable(text)
	}
	return printable(out.String())
}
