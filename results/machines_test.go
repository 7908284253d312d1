package results

import "testing"

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
		"other GPUs":           {[]measured{{"a", Live, Complete, []string{"GPU-1", "GPU-3"}}}, "hosts: 1, sets of GPUs: 2"},
		"fewer GPUs":           {[]measured{{"a", Live, Complete, []string{"GPU-1"}}}, "hosts: 1, sets of GPUs: 2"},
		"another host's name":  {[]measured{{"b", Live, Complete, []string{"GPU-1", "GPU-2"}}}, "hosts: 2, sets of GPUs: 1"},
		"another machine":      {[]measured{{"b", Live, Complete, []string{"GPU-8", "GPU-9"}}, one}, "hosts: 2, sets of GPUs: 2"},
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
