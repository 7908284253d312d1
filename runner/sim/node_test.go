package sim

import (
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
	} {
		n, err := ParseNode(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if n.Name != c.name || n.Count != c.devices || n.Cores() != c.cores || n.Threads() != c.threads || n.Model.SMs != c.sms {
			t.Errorf("%s: %s with %d devices of %d SMs, %d cores, %d threads, want %+v",
				c.text, n.Name, n.Count, n.Model.SMs, n.Cores(), n.Threads(), c)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"4xV100", "want sim:COUNTxMODEL such as sim:4xV100, with a model of A100, H100, H200, P100, V100"},
		{"sim:0xV100", "want sim:COUNTxMODEL"},
		{"sim:1000xV100", "want sim:COUNTxMODEL"},
		{"sim:4xV100 ", "want sim:COUNTxMODEL"},
		{"sim:4xK80", `no model "K80": use one of A100, H100, H200, P100, V100`},
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
