package nodes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
)

func TestSplit(t *testing.T) {
	for list, want := range map[string][]string{"": nil, " , ": {"", ""}, "local": {"local"}, "sim:4xV100, sim:2xP100,": {"sim:4xV100", "sim:2xP100", ""},
		"sim:1xA100/3g.20gb, 2x1g.5gb,sim:1xA100/7x1g.5gb": {"sim:1xA100/3g.20gb,2x1g.5gb", "sim:1xA100/7x1g.5gb"}} {
		if got := Split(list); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

// A wrong name is the user's to mend, wherever it is found.
func TestNamesOfNodes(t *testing.T) {
	silent := func(string, ...any) {}
	for name, says := range map[string]string{
		"local": "", "sim:4xV100": "", "sim:1xH200": "",
		"cloud": `node "cloud": use local, or sim:COUNTxMODEL`, "sim:4xK80": "K80", "sim:0xV100": "0", "sim:": "sim:", "Local": `node "Local"`,
	} {
		err := Check(name)
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.As(err, new(*harness.RequestError)) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
		if backend, opened := Open(t.Context(), harness.Options{Node: name}, silent); opened == nil || opened.Error() != err.Error() {
			t.Errorf("%s opens as %v, %v; want %v", name, backend, opened, err)
		}
	}
}

// After a count, or a plus, completion offers every model.
func TestOffers(t *testing.T) {
	for typed, want := range map[string]string{
		"":                "sim:4xV100\tfour simulated V100s",
		"sim:4xV":         "sim:4xV100\t80 SMs, 15.781 GiB",
		"sim:2xC2050+16x": "sim:2xC2050+16xQuadro2000\t4 SMs, 1 GiB",
		"sim:2xC2050+":    "sim:2xC2050+1xQuadro2000\t4 SMs, 1 GiB",
	} {
		if offers := Offer(typed); !slices.Contains(offers, want) {
			t.Errorf("%q: %q, want %q among them", typed, offers, want)
		}
	}
}

func TestSimulatedNodes(t *testing.T) {
	asked := harness.Options{Node: "sim:1xp100+1xP100", MemCap: size.AmountOf(8 << 30), Guard: true, Seed: 3}
	backend, err := Open(t.Context(), asked, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	devices, threads, _, err := backend.Size()
	if err != nil || devices != 2 || threads != 48 || backend.Mode() != results.Simulated {
		t.Errorf("%d devices and %d threads, %s (%v); want 2 and 48 of a simulated node", devices, threads, backend.Mode(), err)
	}
	want := harness.Options{Node: "sim:2xP100", MemCap: size.AmountOf(8 << 30), Seed: 3, Context: harness.DefaultContext}
	if got := backend.Options(); got != want {
		t.Errorf("it takes %+v, want %+v", got, want)
	}
	var said []string
	harness.SayIgnored(backend, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	large, err := Open(t.Context(), harness.Options{Node: "sim:2xP100", MemCap: size.AmountOf(16 << 30)}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	harness.SayIgnored(large, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
	ignored := []string{"--guard is ignored on simulated nodes", "--mem-cap 16GiB (no less than a device has) is ignored on simulated nodes"}
	if !slices.Equal(said, ignored) || large.Options().MemCap != (size.Amount{}) {
		t.Errorf("said %q, want %q; with more memory than a device has it takes %+v", said, ignored, large.Options())
	}
	for name, o := range map[string]harness.Options{"GPUs": {Node: asked.Node, Devices: "0"}, "tracing": {Node: asked.Node, Trace: true},
		"no memory": {Node: asked.Node, MemCap: size.AmountOf(600 << 20)}} {
		if _, err := Open(t.Context(), o, t.Logf); !errors.As(err, new(*harness.RequestError)) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
}
