package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestParseNode(t *testing.T) {
	for _, c := range []struct {
		text, name                   string
		devices, cores, threads, sms int
	}{
		{"sim:4xV100", "sim:4xV100", 4, 16, 32, 80},
		{"sim:2xp100", "sim:2xP100", 2, 24, 48, 56},
		{"sim:8xA100", "sim:8xA100", 8, 48, 96, 108},
		{"sim:1xH200", "sim:1xH200", 1, 16, 16, 132},
		{"sim:2xh100", "sim:2xH100", 2, 32, 32, 132},
		{"sim:2xC2050+1xquadro2000", "sim:2xC2050+1xQuadro2000", 3, 12, 20, 14},
		{"sim:1xV100+2xV100", "sim:3xV100", 3, 12, 24, 80},
		{"sim:1xV100+1xP100+01xV100", "sim:1xV100+1xP100+1xV100", 3, 20, 40, 80},
		{"sim:999xL40S", "sim:999xL40S", 999, 15984, 15984, 142},
		{"sim:1xA100/7x1g.5gb", "sim:1xA100/7x1g.5gb", 7, 6, 12, 14},
		{"sim:2xa100/3G.20gb,2g.10gb,2x1g.5gb", "sim:2xA100/1x3g.20gb,1x2g.10gb,2x1g.5gb", 8, 12, 24, 42},
		{"sim:2xA30/2g.12gb,2x1g.6gb", "sim:2xA30/1x2g.12gb,2x1g.6gb", 6, 32, 32, 28},
		{"sim:1xH200+1xH200/7x1g.18gb+1xH200/7x1g.18gb", "sim:1xH200+2xH200/7x1g.18gb", 15, 48, 48, 132},
	} {
		n, err := ParseNode(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if n.Name != c.name || n.Count() != c.devices || n.Host.Cores != c.cores || n.Host.Threads != c.threads || n.Groups[0].SMs != c.sms {
			t.Errorf("%s: %s with %d devices of %d SMs, %d cores, %d threads, want %+v",
				c.text, n.Name, n.Count(), n.Groups[0].SMs, n.Host.Cores, n.Host.Threads, c)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"4xV100", "want sim:COUNTxMODEL such as sim:4xV100, or several joined by + such as sim:2xC2050+1xQuadro2000, or instances (MIG) such as sim:1xA100/7x1g.5gb, or a cluster such as sim:10x4xV100 or sim:10x4xV100@nic=1Gb:2x1xH200, with models of A10, A100, A30, B200, C1060,"},
		{"sim:", "want sim:COUNTxMODEL"},
		{"sim:4xV100+", "want sim:COUNTxMODEL"},
		{"sim:4xV100,1xP100", "want sim:COUNTxMODEL"},
		{"sim:V100", "want sim:COUNTxMODEL"},
		{"sim:-1xV100", "want sim:COUNTxMODEL"},
		{"sim:4xV100 ", "want sim:COUNTxMODEL"},
		{"sim:0xV100", "0 devices of model V100: want 1 to 999"},
		{"sim:1xP100+1000xV100", "1000 devices of model V100: want 1 to 999"},
		{"sim:99999999999999999999xV100", "99999999999999999999 devices of model V100: want 1 to 999"},
		{"sim:999xV100+1xP100", "1000 devices: a node has at most 999"},
		{"sim:600xV100+600xV100", "1200 devices: a node has at most 999"},
		{"sim:2xC2050+1xC2060", `no model "C2060": did you mean C1060 or C2050 or C2070?`},
		{"sim:4xK80", `no model "K80": known are A10, A100, A30, B200,`},
		{"sim:4xV100+2x4xV100", `no model "4xV100"`},
		{"sim:1xA100/2x3g.20gb,1x1g.5gb", "A100/2x3g.20gb,1x1g.5gb: these do not fit together: the device has 8 slices of memory, and an instance begins at some of them only; 3g.20gb takes 4, 1g.5gb takes 1"},
		{"sim:1xA100/1x3g.20gb,4x2g.10gb", "these do not fit together"},
		{"sim:1xA100/8x1g.5gb", `"8x1g.5gb": want 1 to 7 instances, as in 7x1g.5gb`},
		{"sim:1xA100/1g.10gb,7x1g.5gb", "these do not fit together"},
		{"sim:1xA100/1g.6gb", `no instance "1g.6gb": did you mean 1g.5gb`},
		{"sim:1xA100/", `no instance "": known are 1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb`},
		{"sim:1xA30/2g.12gb,3x1g.6gb", "these do not fit together: the device has 4 slices of memory, and an instance begins at some of them only; 2g.12gb takes 2, 1g.6gb takes 1"},
		{"sim:1xV100/2x1g.5gb", "only A30, A100, H100 and H200 are split (MIG)"},
		{"sim:143xA100/7x1g.5gb", "1001 devices: a node has at most 999"},
	} {
		if _, err := ParseNode(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
}

func TestContextsAreChargedPerProcessAndTheServerOnce(t *testing.T) {
	n, err := ParseNode("sim:2xV100")
	if err != nil {
		t.Fatal(err)
	}
	shared, own := n.Devices(true), n.Devices(false)
	if len(shared) != 2 || len(own) != 2 {
		t.Fatalf("%d and %d devices, want 2", len(shared), len(own))
	}
	if d := shared[1]; d.CapacityBytes != 16032*mib || d.ContextBytes != 576*mib {
		t.Errorf("with MPS: capacity %d, context %d bytes, want 16032 MiB and 576 MiB", d.CapacityBytes, d.ContextBytes)
	}
	if d := own[1]; d.CapacityBytes != 16160*mib || d.ContextBytes != 576*mib {
		t.Errorf("without MPS: capacity %d, context %d bytes, want 16160 MiB and 576 MiB", d.CapacityBytes, d.ContextBytes)
	}
}

// tableOfModels is what docs/design/simulator.md has behind its marker.
func tableOfModels() string {
	var b strings.Builder
	b.WriteString("| model | memory, MiB | SMs | warps | blocks | link | bandwidth | cores | device factor | source |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range modelNames() {
		m := models[strings.ToUpper(name)]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %g | %.4g | %d | %.4g | %s |\n", m.Name, m.MemoryBytes/mib, m.SMs, m.WarpsPerSM, m.BlocksPerSM,
			m.LinkBytesPerS/1e9, m.BytesPerS/1e9, m.Host.Cores, m.DeviceFactor, strings.TrimSuffix(m.Source, " (docs/design/simulator.md)"))
	}
	return b.String()
}

// The document has all models. go test ./runner/sim -run TestTheDocumentHasAllModels -update writes them.
func TestTheDocumentHasAllModels(t *testing.T) {
	const path, marker = "../../docs/design/simulator.md", "<!-- models -->\n\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), marker)
	table, after, found := strings.Cut(rest, "\n### ")
	switch {
	case !found:
		t.Fatalf("%s has no %q before a heading", path, marker)
	case table == tableOfModels():
	case !*update:
		t.Errorf("the table of models in %s is not that of models.go: run this test with -update", path)
	default:
		if err := os.WriteFile(path, []byte(before+marker+tableOfModels()+"\n### "+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
