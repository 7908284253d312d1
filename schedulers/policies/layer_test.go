package policies

import (
	"strings"
	"testing"
)

// A layer stands behind the scheduler's name, and is part of the name of its arm.
func TestLayers(t *testing.T) {
	for text, want := range map[string]struct {
		name, arm, parameters string
		mps                   *bool
		percent               int
	}{
		"cg@mps:workers=3":       {"cg@mps", "", "workers=3", new(true), 0},
		"sa@timeslice":           {"sa@timeslice", "", "", new(false), 0},
		"half:=sa@mps-50":        {"sa@mps-50", "half", "", new(true), 50},
		"cg@./x/hami.yaml":       {"cg@hami", "", "workers=4", nil, 0},
		"cg@hami.yml":            {"cg@hami", "", "workers=4", nil, 0},
		"cg:workers=1":           {"cg", "", "workers=1", nil, 0},
		"exec@mps:./a@b":         {"exec@mps", "", "", new(true), 0},
		"cg@x.yaml#0123456789ab": {"cg@x", "", "layer=0123456789ab,workers=4", nil, 0},
	} {
		s, err := Parse(text, 2)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var l Layer
		if s.Layer != nil {
			l = *s.Layer
		}
		if s.Name != want.name || s.Arm != want.arm || want.parameters != "" && !strings.HasPrefix(s.Parameters(), want.parameters) || l.Percent != want.percent || (l.MPS == nil) != (want.mps == nil) || l.MPS != nil && *l.MPS != *want.mps {
			t.Errorf("%s: %s, %s, %s, %+v", text, s.Name, s.Arm, s.Parameters(), l)
		}
	}
	for text, want := range map[string]string{
		"cg@":              "a layer follows @",
		"cg@mps-0":         "from 1 to 100",
		"cg@mps-101":       "from 1 to 100",
		"cg@mps-050":       "from 1 to 100",
		"cg@msp":           "did you mean mps?",
		"cg@hami":          "or a file as in ./hami.yaml",
		"cg@x.yaml#12":     "want the first 12 digits of a sha256",
		"sg@mps":           `unknown scheduler "sg"`,
		"cg@mps@timeslice": `unknown layer "mps@timeslice"`,
	} {
		if _, err := Parse(text, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if i, err := Lookup("cg@mps"); err != nil || i.Name != "cg" {
		t.Errorf("%+v, %v", i, err)
	}
}

// A plan means the content that a layer's file had, and finds the file from another folder.
func TestTextOfALayer(t *testing.T) {
	s, err := Parse("a:=cg@./h.yaml:workers=2", 2)
	if err != nil {
		t.Fatal(err)
	}
	l := *s.Layer
	l.SHA256 = "0123456789ab"
	pinned := s.Under(l).PinnedText("a:=cg@./h.yaml:workers=2")
	if pinned != "a:=cg@./h.yaml#0123456789ab:workers=2" || s.Under(l).PinnedText(pinned) != pinned {
		t.Errorf("pinned %s", pinned)
	}
	if !IsPinned(pinned, "a:=cg@./h.yaml:workers=2") || IsPinned(pinned, "a:=cg@./h.yaml:workers=3") || IsPinned(pinned, "cg@mps") {
		t.Error("IsPinned")
	}
	for text, want := range map[string]string{
		"cg@./h.yaml:workers=2": "cg@far/h.yaml:workers=2",
		"cg@../h.yaml":          "cg@./h.yaml",
		"cg@/h.yaml":            "cg@/h.yaml",
		"cg@mps":                "cg@mps",
		"exec@mps:./p":          "exec@mps:path=far/p",
	} {
		if got := InFolder("far", text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	spread, err := Spread("cg@./h.yaml:workers=1/2")
	if err != nil || strings.Join(spread, " ") != "cg@./h.yaml:workers=1 cg@./h.yaml:workers=2" {
		t.Errorf("%q, %v", spread, err)
	}
	if got := WithoutLayer("a=1,layer=0123456789ab,workers=4"); got != "a=1,workers=4" {
		t.Error(got)
	}
}
