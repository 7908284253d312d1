package config

import (
	"slices"
	"testing"
)

func TestSweepLists(t *testing.T) {
	for _, c := range []struct {
		split func(string) ([]string, error)
		in    string
		want  []string // nil: an error
	}{
		{splitMixes, "W1..W3,W8, a/b.yaml", []string{"W1", "W2", "W3", "W8", "a/b.yaml"}},
		{splitMixes, "../my.wl", []string{"../my.wl"}},
		{splitMixes, "D-predict", []string{"D-predict"}},
		{splitMixes, "d-*,W?", []string{"D-predict", "D-detect", "D-generate", "D-train", "D-128", "W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}},
		{splitMixes, "X*", nil},
		{splitMixes, "[W", nil},
		{splitMixes, "mixes/*.yaml", []string{"mixes/*.yaml"}}, // the shell's part
		{splitCatalogMixes, "W7,D-train", []string{"W7", "D-train"}},
		{splitCatalogMixes, "W7,my.yaml", nil},
		{splitMixes, "W1-W3,W5-W6,D-128", []string{"W1", "W2", "W3", "W5", "W6", "D-128"}},
		{splitMixes, "W1..3,W5-6", []string{"W1", "W2", "W3", "W5", "W6"}},
		{splitMixes, "my-3-4.yaml", []string{"my-3-4.yaml"}},
		{splitMixes, "*[1-2]8", []string{"D-128", "N-fig18"}}, // a pattern, and no range
		{splitMixes, "[^1-3]*8", []string{"W8", "D-128", "N-fig8", "N-fig18"}},
		{splitMixes, "W1-W9", nil},
		{splitMixes, "W3..W1", nil},
		{splitMixes, "W1..W99", nil},
		{splitMixes, "W1..X2", nil},
		{splitMixes, "W1, ,W2", nil},
		{splitScheds, "sa, cg ,zero", []string{"sa", "cg", "zero"}},
		{splitScheds, "sa,case-alg3:queue=fifo, age-limit=8,cg:workers=6", []string{"sa", "case-alg3:queue=fifo,age-limit=8", "cg:workers=6"}},
		{splitScheds, "cg,workers=6", []string{"cg:workers=6"}},
		{splitScheds, "workers=6", nil},
		{splitScheds, "sa,", nil},
		{splitScheds, "sa,fifo:=case-alg3:queue=fifo,age-limit=8,all:=cg", []string{"sa", "fifo:=case-alg3:queue=fifo,age-limit=8", "all:=cg"}},
		{splitScheds, "fifo:=case-alg3,queue=fifo", []string{"fifo:=case-alg3:queue=fifo"}},
		{splitScheds, "sa,fifo=case-alg3:queue=fifo", nil},
		{spreadMixes, "a, b.yaml", []string{"a, b.yaml"}},
		{namesOfProbes, "lazy, static", []string{"lazy", "static"}},
		{namesOfProbes, "lazy,", nil},
		{namesOfProbes, "Lazy", nil},
	} {
		got, err := c.split(c.in)
		if (err != nil) != (c.want == nil) || (c.want != nil && !slices.Equal(got, c.want)) {
			t.Errorf("%q: got %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

// namesOfProbes is splitProbes, with the probes' names.
func namesOfProbes(list string) (names []string, err error) {
	probes, err := splitProbes(list)
	for _, p := range probes {
		names = append(names, p.String())
	}
	return names, err
}
