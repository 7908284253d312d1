package mixes

import (
	"fmt"
	"slices"
	"testing"
)

// Portions are jobs of their own, in the place of their job and with its line.
func TestMixApart(t *testing.T) {
	m := Mix{Jobs: []Job{{Program: "./a"}, {Program: "./b", Portions: 3}, {Program: "./c", Portions: 1}, {Program: "./d", Ranks: 2}}, Lines: []int{2, 3, 5, 8}}
	apart, of := m.Apart()
	var said []string
	for i, j := range apart.Jobs {
		said = append(said, fmt.Sprintf("%d:%d %s", apart.Lines[i], j.Portion, j.Command()))
		if j.Whole().Command() != m.Jobs[of[i]].Command() {
			t.Errorf("%s is of %s", j.Command(), m.Jobs[of[i]].Command())
		}
	}
	want := []string{"2:0 ./a", "3:1 a portion of 3: ./b", "3:2 a portion of 3: ./b", "3:3 a portion of 3: ./b", "5:1 ./c", "8:0 2 ranks: ./d"}
	if !slices.Equal(said, want) || !slices.Equal(of, []int{0, 1, 1, 1, 2, 3}) || m.Startable() != 6 {
		t.Errorf("%q of %v, want %q", said, of, want)
	}
	if got := m.Jobs[1].Command(); got != "3 portions: ./b" {
		t.Error(got)
	}
	if _, of := (Mix{Jobs: m.Jobs[:1]}).Apart(); of != nil {
		t.Errorf("a mix without portions is of %v", of)
	}
}
