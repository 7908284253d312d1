package mixes

import (
	"slices"
	"strings"
	"testing"
)

// Each figure of the dissertation has a mix for each choice of values, which any spelling finds.
func TestFigures(t *testing.T) {
	var names []string
	for i := range figures {
		of, err := Match(figures[i].name + "-*")
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, of...)
	}
	if len(names) != 8*10+2*10*6-3*10+5+5+4*5+3+5+5+3*2*2*5+3*2*3*5+3+3*3+6*5*4/2+8*7*6*5/2/2 {
		t.Fatalf("%d mixes", len(names))
	}
	for _, name := range names {
		m, err := Lookup(strings.ToUpper(name))
		if err != nil || m.Name != name || m.Source != "catalog" {
			t.Fatalf("%s: %q of %q, %v", name, m.Name, m.Source, err)
		}
		for _, j := range m.Jobs {
			ofNode := strings.HasPrefix(name, "N-")
			if !j.ReadsNone() || j.Footprint.Bytes == 0 || slices.Contains(j.Args, "--verify") != ofNode {
				t.Errorf("%s: %+v", name, j)
			}
		}
	}
}

func TestJobsOfFigures(t *testing.T) {
	for name, want := range map[string]struct {
		jobs               int
		first, last        string
		ranks, ranksOfLast int
	}{
		"N-fig7":             {8, "", "", 0, 0},
		"N-fig9-150":         {36, "node/mm --verify --cpu-fraction 1.5", "node/mm --verify --cpu-fraction 1.5", 0, 0},
		"N-fig10-75":         {36, "node/mm --verify --cpu-fraction 1", "node/bs --verify", 0, 0},
		"N-fig11-12-50":      {12, "node/mm --size 2000 --products 200 --verify --cpu-fraction 0.5", "", 0, 0},
		"N-fig14a-30":        {4, "node/synth --verify --communication all-to-all --gpu-time 0.5 --iterations 200 --uneven 0 --by 0.3", "", 4, 4},
		"N-fig14b-1":         {4, "node/synth --verify --communication all-to-all --gpu-time 0.5 --iterations 200", "", 4, 3},
		"N-fig16-3-worst-20": {4, "node/synth --verify --communication scatter-gather --gpu-time 3 --iterations 20 --uneven 0 --by -0.2", "", 4, 4},
		"N-fig20-0.3-50-4":   {4, "node/synth --verify --communication barrier --gpu-time 0.3 --iterations 200 --cpu-fraction 0.5", "", 3, 3},
		"C-fig2-adfa":        {1, "cluster/adfa --iterations 2", "", 8, 8},
		"C-fig3-nw":          {6, "cluster/nw --iterations 20", "", 4, 4},
		"C-fig5a":            {6, "cluster/adfa --iterations 2", "cluster/mm --iterations 4", 8, 4},
		"C-fig5b-nmmaannn":   {8, "cluster/nw --iterations 20", "cluster/nw --iterations 20", 4, 4},
		"c-fig5a-half":       {6, "cluster/adfa --iterations 2 --gpu-factor 0.5", "cluster/mm --iterations 4 --gpu-factor 0.5", 8, 4},
		"C-alone-mm-double":  {1, "cluster/mm --iterations 4 --gpu-factor 2", "", 4, 4},
		"N-fig21-6":          {8, "node/synth --verify --communication scatter-gather --gpu-time 0.3 --iterations 200 --message 614400", "", 6, 6},
	} {
		m, err := Lookup(name)
		if err != nil || len(m.Jobs) != want.jobs {
			t.Fatalf("%s: %d jobs, %v", name, len(m.Jobs), err)
		}
		first, last := m.Jobs[0], m.Jobs[len(m.Jobs)-1]
		if want.first != "" && commandOf(first) != want.first || want.last != "" && commandOf(last) != want.last || first.Ranks != want.ranks || last.Ranks != want.ranksOfLast {
			t.Errorf("%s: %d ranks of %s to %d ranks of %s", name, first.Ranks, commandOf(first), last.Ranks, commandOf(last))
		}
	}
	counts := map[string]int{}
	for _, j := range mustLookup(t, "N-fig10-25").Jobs {
		counts[j.Program]++
	}
	if counts["node/bs"] != 9 || counts["node/mm"] != 27 {
		t.Errorf("25 %% of 36 jobs: %v", counts)
	}
	long, short := mustLookup(t, "N-fig8-48-3").Jobs, mustLookup(t, "N-fig7-8-3").Jobs
	if !slices.EqualFunc(long[:8], short, Job.equal) || slices.EqualFunc(short, mustLookup(t, "N-fig7-8-4").Jobs, Job.equal) {
		t.Error("a draw does not begin with that of fewer jobs, or is that of another number")
	}
}

// The workloads of Table 4-5 come in each order once. The printed one has the figure's name, too.
func TestOrders(t *testing.T) {
	for name, want := range map[string]struct {
		orders               int
		first, printed, last string
	}{"C-fig5a": {60, "ammmnn", "amnmnm", "nnmmma"}, "C-fig5b": {420, "aammnnnn", "amnmnann", "nnnnmmaa"}} {
		names, err := Match(name + "-*")
		if err != nil || len(names) != want.orders || names[0] != name+"-"+want.first || names[len(names)-1] != name+"-"+want.last {
			t.Errorf("%s: %d orders, %v: %q", name, len(names), err, names)
		}
		if n := len(slices.Compact(slices.Sorted(slices.Values(names)))); n != want.orders {
			t.Errorf("%s: %d orders differ", name, n)
		}
		if !slices.EqualFunc(mustLookup(t, name).Jobs, mustLookup(t, name+"-"+want.printed).Jobs, Job.equal) {
			t.Errorf("%s has not the printed order", name)
		}
	}
}

// A rank has memory for its share of the pairs, rounded up. An ADFA has an input for each rank. benchmarks/cluster/test.sh has the same numbers.
func TestMemoryOfRanks(t *testing.T) {
	for _, c := range []struct {
		mix   string
		ranks int
		bytes int64
	}{
		{"C-alone-mm", 4, 184320024}, {"C-fig3-mm", 5, 153600024}, {"C-fig2-mm", 8, 92160024}, {"C-alone-nw", 4, 37452900}, {"C-fig3-nw", 7, 21683268},
		{"C-alone-adfa", 8, 61920024}, {"C-fig3-adfa", 5, 61920024},
	} {
		jobs := mustLookup(t, c.mix).Jobs
		i := slices.IndexFunc(jobs, func(j Job) bool { return j.Ranks == c.ranks })
		if i < 0 || jobs[i].Footprint.Bytes != c.bytes {
			t.Errorf("%s: %+v, want %d bytes of each of %d ranks", c.mix, jobs, c.bytes, c.ranks)
		}
	}
}

func commandOf(j Job) string { return strings.Join(append([]string{j.Program}, j.Args...), " ") }

func mustLookup(t *testing.T, name string) Mix {
	m, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
