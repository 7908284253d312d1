package near

import (
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	schedulers := []string{"case-alg2", "case-alg3", "cg", "demand", "exec", "plan", "sa", "schedgpu", "vgpu", "zero"}
	for _, c := range []struct {
		name       string
		candidates []string
		want       []string
	}{
		{"alg3", schedulers, []string{"case-alg3"}},
		{"case_alg3", schedulers, []string{"case-alg3"}},
		{"case-alg-3", schedulers, []string{"case-alg3"}},
		{"Case Alg3", schedulers, []string{"case-alg3"}},
		{"case", schedulers, []string{"case-alg2", "case-alg3"}},
		{"case-alg9", schedulers, []string{"case-alg2", "case-alg3"}},
		{"gc", schedulers, []string{"cg"}},
		{"schedgpus", schedulers, []string{"schedgpu"}},
		{"foo", schedulers, nil},
		{"", schedulers, nil},
		{"W9", []string{"W1", "W2", "W3", "W4"}, []string{"W1", "W2", "W3", "W4"}},
		{"W9", []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}, []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}},
		{"W0", []string{"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9"}, []string{"W1", "W2", "W3"}},
		{"x", []string{"y"}, nil},
		{strings.Repeat("sa", 1000), schedulers, nil},
		{"MEMCAP", []string{"MEM_CAP", "SM_CAP"}, []string{"MEM_CAP"}},
	} {
		if got := alike(c.name, c.candidates); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestSentences(t *testing.T) {
	flags := []string{"sched", "seed"}
	if got := DidYouMean("--", "shced", flags); got != "did you mean --sched?" {
		t.Error(got)
	}
	if got := DidYouMean("--", "quiet", flags); got != "" {
		t.Error(got)
	}
	if got := OrKnown("quiet", flags); got != "known are sched, seed" {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"list", "lits", 1}, {"abc", "abd", 1}, {"ab", "ba", 1}, {"ca", "abc", 3}, {"kitten", "sitting", 3}} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%s, %s: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}
