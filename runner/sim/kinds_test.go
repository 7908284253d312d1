package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/runner/harness"
)

func TestClusterNames(t *testing.T) {
	for text, want := range map[string]string{
		"sim:4xV100":                              "sim:4xV100",
		"sim:10x4xv100":                           "sim:10x4xV100",
		"sim:1x4xV100":                            "sim:1x4xV100",
		"sim:2x1xV100+1xV100:3xp100":              "sim:2x2xV100:1x3xP100",
		"sim:4xV100@nic=1GB@weight=8":             "sim:1x4xV100@nic=1Gb@weight=8",
		"sim:2x4xV100@weight=5:1xH200@nic=ddr-IB": "sim:2x4xV100@weight=5:1x1xH200@nic=ddr-ib",
		"sim:2x4xV100@nic=10Gb":                   "sim:2x4xV100", // the default
		"sim:2x4xV100:4xV100:1x1xV100":            "sim:3x4xV100:1x1xV100",
	} {
		got, err := Canonical(text)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
		if again, err := Canonical(got); err != nil || again != got {
			t.Errorf("%s again: %q, %v", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"sim:10001x4xV100":               "10001 nodes: want 1 to 10000",
		"sim:6000x1xV100:6000x1xP100":    "12000 nodes: want 1 to 10000",
		"sim:200x999xV100":               "199800 devices: a cluster has at most 100000",
		"sim:2x4xV100:":                  "want sim:COUNTxMODEL",
		"sim:2x4xV100@":                  "@: want @nic=NAME or @weight=NUMBER",
		"sim:2x4xV100@nic=2Gb":           `no NIC "2Gb": did you mean`,
		"sim:2x4xV100@weight=0":          `weight "0": want the number of ranks`,
		"sim:2x4xV100@speed=2":           "@speed=2: want @nic=NAME or @weight=NUMBER",
		"sim:2x4xV100@weight=2@weight=3": "@weight= twice: leave one out",
		"sim:2x4xK80":                    `no model "K80"`,
	} {
		if _, err := Canonical(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestClusterFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes.csv")
	for text, want := range map[string]string{
		"count,model,weight,nic\n2,4xV100,,\n1,1xK40c+2xC2075,9,ddr-ib\n": "sim:2x4xV100:1x1xK40c+2xC2075@nic=ddr-ib@weight=9",
		"model,nic,name,weight,count\n1xV100,1Gb,own,,1\n":                "sim:1x1xV100@nic=1Gb",
		"":                                 path + ":1: an empty file: want a header with count, model, weight, nic",
		"count,model\n":                    path + ":1: no column \"weight\"",
		"count,model,weight,nic\n":         path + ": only a header",
		"count,model,weight,nic\n2,V100,,": path + ":2: model \"V100\": want sim:COUNTxMODEL",
		"count,model,weight,nic\n1,1xV100,,\n0,1xV100,,":    path + ":3: count \"0\": want 1 to 10000",
		"count,model,weight,nic\n2,1xV100,x,3Gb":            path + ":2: weight \"x\": want",
		"count,model,weight,nic\n9999,1xV100,,\n9,1xV100,,": path + ": 10008 nodes: want 1 to 10000",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Canonical(path)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, err := Canonical(path + "x.csv"); err == nil || !strings.Contains(err.Error(), path+"x.csv") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Each node of a cluster has its own devices, which are numbered through, and its own NIC and weight.
func TestNodesThatDiffer(t *testing.T) {
	b, err := Open(harness.Options{Node: "sim:1x1xP100@nic=1Gb:2x2xV100@weight=1"})
	if err != nil {
		t.Fatal(err)
	}
	c := &batchOfCluster{backend: b}
	var got []string
	for i, d := range c.Devices() {
		if d.Index != i {
			t.Errorf("device %d is %+v", i, d)
		}
		got = append(got, strings.Join([]string{string(rune('0' + d.Node)), d.Name}, " "))
	}
	if want := "0 P100 (simulated),1 V100 (simulated),1 V100 (simulated),2 V100 (simulated),2 V100 (simulated)"; strings.Join(got, ",") != want {
		t.Errorf("devices %q, want %q", got, want)
	}
	// By its weight each of the larger nodes has room for one rank, so that one is left for the small one.
	done, rec, err := clustered(t.Context(), "sim:1x1xP100@nic=1Gb:2x2xV100@weight=1", "coloc/case-alg3", 1, timed("a", 1), timed("b", 1), timed("c", 1))
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]bool{}
	for _, k := range rec.Kernels {
		used[k.Device] = true
	}
	if len(used) != 3 || !used[0] || !used[1] || !used[3] {
		t.Errorf("kernels on devices %v: %+v", used, done)
	}
	// A message goes at the rate of the slower NIC.
	_, rec, err = clustered(t.Context(), "sim:1x1xP100@nic=1Gb:1x1xP100", "cluster-rr/case-alg3", 1, ranks(t, "meets", 2, message("1", "0", "117000000")))
	if err != nil {
		t.Fatal(err)
	}
	wantEnds(t, rec, 0, 1+50e-6, 1+50e-6)
}

// --mem-cap is for the devices of all nodes.
func TestCappedNodesThatDiffer(t *testing.T) {
	large := timed("large", 1)
	large.Profile.Phases[0].Kernels.Bytes, large.Footprint.Bytes = 10<<30, 10<<30
	done, _, err := clusteredBy(t.Context(), harness.Options{Node: "sim:1x1xP100:1x1xV100", Seed: 1, MemCap: size.AmountOf(8 << 30)}, "cluster-rr/case-alg3", nil, []mixes.Job{large, large}...)
	if err != nil || *done[0].Outcome != results.Refused || *done[1].Outcome != results.Refused {
		t.Errorf("%+v, %v", done, err)
	}
}
