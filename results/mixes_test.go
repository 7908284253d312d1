package results

import "testing"

func TestSeveralMixes(t *testing.T) {
	run := func(id int64, source string) Run {
		return Run{ID: id, Mix: "W7", MixSource: source, Jobs: 2}
	}
	list := CommandList([]Job{{Command: "lud 1"}, {Command: "bfs 2"}})
	for _, c := range []struct {
		runs     []Run
		commands map[int64]string
		want     string
	}{
		{nil, nil, ""},
		{[]Run{run(1, "catalog"), run(2, "catalog")}, map[int64]string{1: list, 2: list}, ""},
		{[]Run{run(1, "catalog"), run(2, "catalog")}, map[int64]string{1: list}, ""},
		{[]Run{run(1, "my.yaml"), run(2, "catalog"), run(3, "catalog")}, map[int64]string{1: list, 2: list, 3: list}, "sources: catalog and my.yaml"},
		{[]Run{run(1, "my.yaml"), run(2, "my.yaml")}, map[int64]string{1: list, 2: "bfs 2\nlud 1"}, "lists of commands: 2"},
		{[]Run{run(1, "my.yaml"), run(2, "catalog")}, map[int64]string{1: list, 2: "sleep 1\nlud 1"}, "sources: catalog and my.yaml, lists of commands: 2"},
	} {
		if got := SeveralMixes(c.runs, c.commands); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.runs, c.commands, got, c.want)
		}
	}
}
