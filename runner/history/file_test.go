package history

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
)

func some() []results.Known {
	return []results.Known{
		{Command: `bfs "a b.txt", again`, GPU: "NVIDIA H200", Runs: 14, Jobs: 20, Expected: results.Expected{BeforeS: 1.0 / 3, HeldS: 2, AfterS: 1e-9, Bytes: 5 << 30,
			Kernels: new(0.25), SMs: new(1.0), Source: "14 runs"}},
		{Command: "bfs", Expected: results.Expected{HeldS: 7, Source: "profile"}},
		{Command: "bfs", GPU: "V100 (simulated)", Expected: results.Expected{HeldS: 3, Kernels: new(0.0), Source: "profile"}},
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known.csv")
	var text bytes.Buffer
	twice := append(some(), results.Known{Command: "bfs", Expected: results.Expected{HeldS: 9, Source: "later"}})
	if err := Write(&text, twice); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	want := some()
	for i := range want {
		want[i].Source = sourceFile
	}
	sortKnown(want)
	if diff := cmp.Diff(want, f.Entries()); diff != "" {
		t.Error(diff)
	}
	for gpu, held := range map[string]float64{"V100 (simulated)": 3, "NVIDIA A100": 7} {
		if e, ok := f.lookup("bfs", []string{gpu}); !ok || e.HeldS != held || e.Source != "file" {
			t.Errorf("bfs on %s: %v %+v, want %v s from the file", gpu, ok, e, held)
		}
	}
	if e, ok := f.lookup(`bfs "a b.txt", again`, []string{"NVIDIA A100"}); ok {
		t.Errorf("%+v is of another GPU", e)
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	head := strings.Join(format.Header(), ",") + "\n"
	for text, want := range map[string]string{
		"":                             "f.csv:1: want the header command,gpu,before_s",
		head + ",,1,1,1,,,,,,\n":       `f.csv:2: command is ""`,
		head + "a\x00b,,1,1,1,,,,,,\n": `f.csv:2: command is "a\x00b": it has control characters`,
		head + "a,,1_0,1,1,,,,,,\n":    `f.csv:2: before_s is "1_0": want seconds`,
		head + "a,,1,,1,,,,,,\n":       `f.csv:2: held_s is ""`,
		head + "a,,1,1,1,,2,,,,\n":     `f.csv:2: kernels is "2": want a number from 0 to 1`,
		head + "a,,1,1,1,-1,,,,,\n":    `f.csv:2: bytes is "-1"`,
		head + "a,x,1,1,1,,,,,,\na,y,1,1,1,,,,,,\na,x,1,1,1,,,,,,\n": `f.csv:4: duplicate command "a" on gpu "x" (first in line 2): remove one`,
	} {
		if _, err := read("f.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
