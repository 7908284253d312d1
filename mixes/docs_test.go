package mixes

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The example in the documents is valid and has every key.
func TestDocumentedMixIsRead(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/mixes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no example in docs/reference/mixes.md")
	}
	m, err := parseYAML(newLines("mixes.md", strings.NewReader(example)), builtin().jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Jobs) != 12 || !m.Jobs[6].Pin || m.Jobs[6].Binding != BindDeclared || m.Jobs[6].Footprint.Bytes != 3<<29 {
		t.Errorf("%d jobs, the last %+v", len(m.Jobs), m.Jobs[len(m.Jobs)-1])
	}
	if j := m.Jobs[11]; j.Steps != "trainer.jsonl" || j.Program != "" || j.Name != "trainer.jsonl" || j.Command() != "steps: trainer.jsonl" || j.OfSuite() {
		t.Errorf("a job of steps alone: %+v", j)
	}
	for _, key := range slices.Concat(mixKeys, jobKeys) {
		if !strings.Contains(example, " "+key+":") && !strings.Contains(example, "\n"+key+":") && !strings.HasPrefix(example, key+":") {
			t.Errorf("the example lacks the key %s", key)
		}
	}
}

func TestDocumentedWorkloadIsRead(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/mixes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```sh\n")
	example, _, _ := strings.Cut(rest, "```")
	m, err := parseWL(newLines("mixes.wl", strings.NewReader(example)), builtin().jobs, suiteOf("hotspot"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range m.Jobs {
		got = append(got, j.Name+" "+strconv.Itoa(j.Group))
	}
	if want := []string{"hotspot 0", "needle-32768 0", "darknet-detect 1"}; !slices.Equal(got, want) || len(m.Notes) != 2 {
		t.Errorf("jobs and groups %q, want %q; notes %q", got, want, m.Notes)
	}
	for name := range wrappers {
		if !strings.Contains(string(doc), "`"+name+"`") && !strings.Contains(string(doc), "`"+name+" ") {
			t.Errorf("docs/reference/mixes.md does not name %s", name)
		}
	}
}

func TestJobOfACommandLine(t *testing.T) {
	known := FromCommand([]string{"needle", "32768", "10"})
	if known.Name != "needle-32768" || known.Footprint.Bytes == 0 || known.Dir != "" {
		t.Errorf("a catalog command: %+v", known)
	}
	words := []string{"./needle", "32768", "10"}
	own := FromCommand(words)
	words[1] = "changed"
	if own.Name != "needle" || own.Footprint.Bytes != 0 || own.Dir != "." || own.Command() != "./needle 32768 10" {
		t.Errorf("a program of one's own with a suite's name: %+v", own)
	}
	j := own.WithFootprint(Footprint{Bytes: LargeThreshold + 1})
	if j.Class != ClassLarge || own.Class != "" {
		t.Errorf("classes %q and %q", j.Class, own.Class)
	}
}
