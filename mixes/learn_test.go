package mixes

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

// measuredAll returns f for every job whose program is not called unknown.
func measuredAll(f Footprint) func(Job) Footprint {
	return func(j Job) Footprint {
		if strings.HasSuffix(j.Program, "unknown") {
			return Footprint{}
		}
		return f
	}
}

func TestLearnKeepsCommentsAndLayout(t *testing.T) {
	const before = `# nightly: what we run
name: nightly    # the name
jobs:
  - needle-32768   # a large one
  -   "dwt2d-8192"

  - job: srad_v2-16384
    isolate: true
    count: 2
  # our own
  - program: ./my/solver   # built by make
    # two sizes
    args: -n 512 -v
    memory: 1.5GiB         # guessed

    blocks: '4096'
  - args:
      - -n
      - "5"
    program: ./two words/solver
    count: 4
  - {program: ./x, memory: 7KiB, name: "é"}
  - {  name: "é", program: ./y  }
  - program: ./unknown
    memory: 9MiB
`
	const after = `# nightly: what we run
name: nightly    # the name
jobs:
  - job: needle-32768   # a large one
    memory: 3MiB
    blocks: 12
    threads_per_block: 128
  -   job: "dwt2d-8192"
      memory: 3MiB
      blocks: 12
      threads_per_block: 128

  - job: srad_v2-16384
    memory: 3MiB
    blocks: 12
    threads_per_block: 128
    isolate: true
    count: 2
  # our own
  - program: ./my/solver   # built by make
    threads_per_block: 128
    # two sizes
    args: -n 512 -v
    memory: 3MiB         # guessed

    blocks: 12
  - args:
      - -n
      - "5"
    program: ./two words/solver
    memory: 3MiB
    blocks: 12
    threads_per_block: 128
    count: 4
  - {blocks: 12, threads_per_block: 128, program: ./x, memory: 3MiB, name: "é"}
  - {memory: 3MiB, blocks: 12, threads_per_block: 128,   name: "é", program: ./y  }
  - program: ./unknown
    memory: 9MiB
`
	measured := measuredAll(Footprint{3 << 20, 12, 128})
	for _, c := range []struct{ name, before, after string }{
		{"all forms", before, after},
		{"lines that end with carriage returns", strings.ReplaceAll(before, "\n", "\r\n"), strings.ReplaceAll(after, "\n", "\r\n")},
		{"no end of the last line", "jobs:\n- program: ./x", "jobs:\n- program: ./x\n  memory: 3MiB\n  blocks: 12\n  threads_per_block: 128"},
		{"a list in brackets", "jobs: [needle-32768, {program: ./x}]\n",
			"jobs: [{job: needle-32768, memory: 3MiB, blocks: 12, threads_per_block: 128}, {memory: 3MiB, blocks: 12, threads_per_block: 128, program: ./x}]\n"},
		{"a byte order mark", "\ufeffjobs:\n- program: ./x\n  threads_per_block: 128\n", "\ufeffjobs:\n- program: ./x\n  memory: 3MiB\n  blocks: 12\n  threads_per_block: 128\n"},
		{"nothing to change", "jobs:\n- {program: ./x, memory: 3072KiB, blocks: 12, threads_per_block: 128}\n", "jobs:\n- {program: ./x, memory: 3072KiB, blocks: 12, threads_per_block: 128}\n"},
	} {
		got, err := learnYAML("nightly.yaml", []byte(c.before), measured, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.after, string(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
		again, err := learnYAML("nightly.yaml", got, measured, nil)
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("%s: learned again: %v\n%s", c.name, err, again)
		}
	}
}

// Fields of a footprint that were not measured are kept.
func TestLearnOnlyWhatIsMeasured(t *testing.T) {
	const before = "jobs:\n- program: ./x\n  memory: 1GiB\n  blocks: 7\n  threads_per_block: 96\n"
	got, err := learnYAML("m.yaml", []byte(before), measuredAll(Footprint{Blocks: 8}), nil)
	if want := strings.Replace(before, "blocks: 7", "blocks: 8", 1); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// A file that cannot be edited is an error, which names the line.
func TestLearnRefusesWhatItCannotEdit(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"jobs:\n- program: ./x\n  memory: \"\\x35MiB\"\n", "m.yaml:2: ./x: its footprint is not written"},
		{"jobs:\n- program: ./x\r\n", "make them alike"},
		{"jobs:\n- program: >-\n    ./x\n", "its footprint is not written"},
		{"jobs:\n- program: x\n", "m.yaml:2:12: no suite program"},
	} {
		out, err := learnYAML("m.yaml", []byte(c.text), measuredAll(Footprint{Bytes: 5}), nil)
		if err == nil || out != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// A mix of the catalog or of a .wl file becomes YAML.
func TestLearnOfAMixWithoutYAML(t *testing.T) {
	m, err := Lookup("W1")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Learn(m, measuredAll(Footprint{Bytes: 5 << 30}), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseYAML(newLines("w.yaml", bytes.NewReader(text)), builtin().jobs, nil)
	if err != nil || got.Name != "W1" || len(got.Jobs) != len(m.Jobs) {
		t.Fatalf("%v, %+v", err, got)
	}
	for i, j := range got.Jobs {
		was := m.Jobs[i]
		if !j.equal(was.WithFootprint(Footprint{5 << 30, was.Footprint.Blocks, was.Footprint.ThreadsPerBlock})) {
			t.Errorf("job %d: %+v, was %+v", i, j, was)
		}
	}
	if was, _ := Lookup("W1"); !slices.EqualFunc(m.Jobs, was.Jobs, Job.equal) {
		t.Error("the catalog's mix was changed")
	}
}

// Learn works for any mix that WriteYAML writes, whatever its footprints.
func TestLearnAnyMix(t *testing.T) {
	chance.Check(t, func(rt *rapid.T) {
		m := anyMix(rt)
		var text bytes.Buffer
		if err := WriteYAML(&text, m); err != nil {
			rt.Fatal(err)
		}
		f := Footprint{rapid.Int64Range(0, 9).Draw(rt, "bytes") << 20, rapid.Uint64Range(0, 9).Draw(rt, "blocks"), rapid.Uint32Range(0, 9).Draw(rt, "threads")}
		out, err := learnYAML("m.yaml", text.Bytes(), measuredAll(f), suiteOf("hotspot", "gaussian"))
		if err != nil {
			rt.Fatalf("%v\n%s", err, text.String())
		}
		got, err := parseYAML(newLines("m.yaml", bytes.NewReader(out)), builtin().jobs, suiteOf("hotspot", "gaussian"))
		if err != nil || len(got.Jobs) != len(m.Jobs) {
			rt.Fatalf("%v\n%s", err, out)
		}
		for i, j := range m.Jobs {
			if want := j.WithFootprint(j.Footprint.or(measuredAll(f)(j))); !got.Jobs[i].equal(want) {
				rt.Fatalf("job %d: %+v, want %+v\n%s", i, got.Jobs[i], want, out)
			}
		}
	})
}
