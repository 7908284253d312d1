package mixes

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestLoadSuite(t *testing.T) {
	path := filepath.Join(t.TempDir(), SuiteFile)
	if _, err := LoadSuite(path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for _, c := range []struct {
		text  string
		facts map[string]Facts
		says  string
	}{
		{"programs: {srad_v2: {faults: known}}", map[string]Facts{"srad_v2/srad": {KnownFault: true}}, ""},
		{"programs:\n  gaussian:\n    faults: known\n  srad_v1/srad: {faults: known}\n  bfs: {}\n", map[string]Facts{"gaussian": {KnownFault: true}, "srad_v1/srad": {KnownFault: true}, "bfs": {}}, ""},
		{"programs: {needle: {restartable: true}, bfs: {restartable: false, faults: known}}", map[string]Facts{"needle": {Restartable: new(true)}, "bfs": {KnownFault: true, Restartable: new(false)}}, ""},
		{"programs: {needle: {restartable: yes}}", nil, `:1:34: bad restartable "yes"; write true or false`},
		{"", nil, ":1:1: nothing in the file; write programs: and what is known of each"},
		{"programs: [needle]", nil, ":1:11: programs is a list; write key: value, with keys from the suite's programs"},
		{"program: {}", nil, `:1:1: unknown key "program" in the suite; did you mean programs?`},
		{"programs:\n  needel: {faults: known}", nil, `:2:3: unknown program "needel" in programs; did you mean needle? (and the executables of the suite)`},
		{"programs:\n  bfs: {fault: known}", nil, `:2:9: unknown key "fault" in bfs; did you mean faults?`},
		{"programs:\n  bfs: {faults: often}", nil, `:2:17: bad faults "often"; write known, or remove the key`},
		{"programs:\n  bfs: {}\n  bfs: {}", nil, `:3:3: duplicate key "bfs" (first in line 2); remove one`},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		facts, err := LoadSuite(path, suiteOf("gaussian"))
		if c.says != "" {
			if err == nil || err.Error() != path+c.says {
				t.Errorf("%q: error %v, want %s", c.text, err, c.says)
			}
			continue
		}
		if err != nil || !maps.EqualFunc(facts, c.facts, func(a, b Facts) bool { return a.KnownFault == b.KnownFault && same(a.Restartable, b.Restartable) }) {
			t.Errorf("%q: %v, %v, want %v", c.text, facts, err, c.facts)
		}
	}
}
