package mixes

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

func TestGenerateIsDeterministic(t *testing.T) {
	m, err := Generate(8, Ratio{3, 1}, 7)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, j := range m.Jobs {
		names = append(names, j.Name)
	}
	const want = "bfs-32M needle-32768 lavaMD-110 backprop-8388608 lavaMD-100 dwt2d-16384 backprop-67108864 lavaMD-100"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("seed 7:\n got %s\nwant %s", got, want)
	}
	if m.Name != "gen-8-3:1-7" || m.Ratio != "3:1" || m.Source != "generated: 8 jobs, ratio 3:1, seed 7" {
		t.Errorf("generated mix is called %q, ratio %q, source %q", m.Name, m.Ratio, m.Source)
	}
	other, err := Generate(8, Ratio{3, 1}, 8)
	if err != nil {
		t.Fatal(err)
	}
	if firstDifference(m.Jobs, other.Jobs) < 0 {
		t.Error("seeds 7 and 8 give the same mix")
	}
}

func TestGenerateKeepsTheRatio(t *testing.T) {
	chance.Check(t, func(t *rapid.T) {
		jobs := rapid.IntRange(1, 200).Draw(t, "jobs")
		ratio := Ratio{rapid.IntRange(0, 9).Draw(t, "large"), rapid.IntRange(1, 9).Draw(t, "small")}
		m, err := Generate(jobs, ratio, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		small := 0
		for _, j := range m.Jobs {
			if j.Class == ClassSmall {
				small++
			}
		}
		if len(m.Jobs) != jobs || small != jobs*ratio.Small/(ratio.Large+ratio.Small) {
			t.Fatalf("%d jobs at %s: %d jobs, %d small", jobs, ratio, len(m.Jobs), small)
		}
	})
}

// Over many draws each job is drawn about equally often, within five standard deviations of the
// binomial distribution.
func TestGenerateIsUniform(t *testing.T) {
	m, err := Generate(10_000, Ratio{1, 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, j := range m.Jobs {
		count[j.Name]++
	}
	for _, j := range Jobs() {
		want, slack := 500, 107 // 10 large jobs share 5,000 draws
		if j.Class == ClassSmall {
			want, slack = 714, 124 // 7 small jobs do
		}
		if n := count[j.Name]; n < want-slack || n > want+slack {
			t.Errorf("%s drawn %d times, want about %d", j.Name, n, want)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	for _, c := range []struct {
		jobs  int
		ratio Ratio
	}{{0, Ratio{1, 1}}, {-1, Ratio{1, 1}}, {MaxJobs + 1, Ratio{1, 1}}, {4, Ratio{}}, {4, Ratio{-1, 2}}} {
		if m, err := Generate(c.jobs, c.ratio, 1); err == nil || !strings.HasPrefix(err.Error(), "generate mix: ") {
			t.Errorf("Generate(%d, %v) = %d jobs, %v", c.jobs, c.ratio, len(m.Jobs), err)
		}
	}
}

func TestParseRatio(t *testing.T) {
	for in, want := range map[string]Ratio{"3:1": {3, 1}, "1:0": {1, 0}, "0:5": {0, 5}, "1000:1": {1000, 1}} {
		if got, err := ParseRatio(in); err != nil || got != want || got.String() != in {
			t.Errorf("ParseRatio(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "3", "3:", ":1", "0:0", "-1:2", "+1:2", "1:2:3", "1001:1", "a:b", "3/1", "3 : 1"} {
		if got, err := ParseRatio(in); err == nil || !strings.Contains(err.Error(), "write large:small, such as 3:1") {
			t.Errorf("ParseRatio(%q) = %v, %v", in, got, err)
		}
	}
}
