package results

import (
	"testing"
)

func TestGuarded(t *testing.T) {
	for configuration, want := range map[string]bool{`[{"Key":"guard","Value":true}]`: true, `[{"Key":"guard","Value":false}]`: false, `[]`: false, ``: false,
		`{"guard":true}`: true, `{"guard":false}`: false, `{}`: false} {
		if got := Guarded(Run{Provenance: Provenance{Configuration: configuration}}); got != want {
			t.Errorf("%q: %v", configuration, got)
		}
	}
}

func TestSeveralSettings(t *testing.T) {
	run := func(workers int, configuration string) Run {
		return Run{Workers: workers, Provenance: Provenance{Configuration: configuration}}
	}
	for name, c := range map[string]struct {
		runs []Run
		want string
	}{
		"none":          {nil, ""},
		"alike":         {[]Run{run(3, `[{"Key":"mem-cap","Value":"16GiB"}]`), run(3, `[{"Key":"mem-cap","Value":"16GiB"}]`)}, ""},
		"workers":       {[]Run{run(64, `[]`), run(3, `[]`)}, `workers: "3" and "64"`},
		"the run's own": {[]Run{run(0, `[{"Key":"workers","Value":0},{"Key":"seed","Value":1}]`), run(0, `[{"Key":"workers","Value":3},{"Key":"seed","Value":2}]`)}, ""},
		"two": {[]Run{run(0, `[{"Key":"mem-cap","Value":""},{"Key":"no-mps","Value":true}]`), run(0, `[{"Key":"mem-cap","Value":"8GiB"},{"Key":"no-mps","Value":false}]`)},
			`mem-cap: "" and "8GiB", no-mps: "false" and "true"`},
		"of an earlier version": {[]Run{run(0, `[{"Key":"mem-cap","Value":"8GiB"},{"Key":"sim-noise","Value":0.01}]`), run(0, `{"mem-cap":"8GiB","sim-noise":0.01}`)}, ""},
		"not known":             {[]Run{run(0, `[{"Key":"mem-cap","Value":"8GiB"}]`), run(0, ``)}, ""},
	} {
		if got := SeveralSettings(c.runs); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSeveralMachines(t *testing.T) {
	type measured struct {
		host   string
		mode   Mode
		status Status
		uuids  []string
	}
	one := measured{"a", Live, Complete, []string{"GPU-1", "GPU-2"}}
	for name, c := range map[string]struct {
		more []measured
		want string
	}{
		"one machine":          {nil, ""},
		"in another order":     {[]measured{{"a", Live, Complete, []string{"GPU-2", "GPU-1"}}}, ""},
		"other GPUs":           {[]measured{{"a", Live, Complete, []string{"GPU-1", "GPU-3"}}}, "host names: 1, sets of GPUs: 2"},
		"fewer GPUs":           {[]measured{{"a", Live, Complete, []string{"GPU-1"}}}, "host names: 1, sets of GPUs: 2"},
		"another host's name":  {[]measured{{"b", Live, Complete, []string{"GPU-1", "GPU-2"}}}, "host names: 2, sets of GPUs: 1"},
		"another machine":      {[]measured{{"b", Live, Complete, []string{"GPU-8", "GPU-9"}}, one}, "host names: 2, sets of GPUs: 2"},
		"an interrupted run":   {[]measured{{"b", Live, Interrupted, []string{"GPU-8"}}}, ""},
		"simulated on another": {[]measured{{"b", Simulated, Complete, []string{"sim:1xV100/0"}}}, ""},
	} {
		var runs []Run
		devices := map[int64][]Device{}
		for i, m := range append([]measured{one}, c.more...) {
			id := int64(i + 1)
			runs = append(runs, Run{ID: id, Mode: m.mode, Status: m.status, Provenance: Provenance{Host: m.host}})
			for _, uuid := range m.uuids {
				devices[id] = append(devices[id], Device{UUID: uuid})
			}
		}
		if got := SeveralMachines(runs, devices); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

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
