package mixes

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func FuzzYAML(f *testing.F) {
	addFiles(f, "catalog/*.yaml", "testdata/*.yaml", "testdata/bad/*.yaml")
	f.Fuzz(func(t *testing.T, data []byte) { checkParse(t, parseYAML, data) })
}

func FuzzWL(f *testing.F) {
	addFiles(f, "testdata/*.wl", "testdata/bad/*.wl")
	f.Fuzz(func(t *testing.T, data []byte) { checkParse(t, parseWL, data) })
}

func FuzzSuite(f *testing.F) {
	addFiles(f, "testdata/bad/*.yaml")
	f.Add([]byte("programs:\n  srad_v2: {faults: known, restartable: true}\n  hotspot: {}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &yamlReader{file: "f", has: suiteOf("hotspot")}
		facts, err := readYAML(r, newPieces(newLines("f", bytes.NewReader(data))), r.suite)
		if err != nil {
			checkPlaces(t, err, data)
			return
		}
		for program := range facts {
			if program != "hotspot" && !slices.Contains(suitePrograms, program) {
				t.Fatalf("program %q", program)
			}
		}
	})
}

func addFiles(f *testing.F, patterns ...string) {
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}

// checkParse must hold for every input: the result is either errors that name lines of the file,
// or a mix that can be written and read again.
func checkParse(t *testing.T, parse func(*lines, jobIndex, func(string) bool) (Mix, error), data []byte) {
	in := newLines("f", bytes.NewReader(data))
	in.limits.jobs = 10_000 // a count can ask for more than a test should take
	m, err := parse(in, builtin().jobs, suiteOf("hotspot", "gaussian"))
	if err != nil {
		checkPlaces(t, err, data)
		return
	}
	if len(m.Jobs) == 0 || len(m.Jobs) > in.limits.jobs {
		t.Fatalf("%d jobs", len(m.Jobs))
	}
	for i, j := range m.Jobs {
		if i > 0 && j.Group < m.Jobs[i-1].Group {
			t.Fatalf("job %d of group %d follows a job of group %d", i, j.Group, m.Jobs[i-1].Group)
		}
	}
	if err := WriteYAML(&bytes.Buffer{}, m); err != nil {
		t.Fatalf("%v\n%+v", err, m)
	}
}

func checkPlaces(t *testing.T, err error, data []byte) {
	var all InputErrors
	if !errors.As(err, &all) || len(all) == 0 {
		t.Fatalf("error of another kind: %v", err)
	}
	lines := bytes.Count(data, []byte("\n")) + 1
	for _, e := range all {
		if e.File != "f" || e.Line < 1 || e.Line > lines+1 || e.Msg == "" {
			t.Fatalf("error without its place in %d lines: %+v", lines, e)
		}
	}
}
