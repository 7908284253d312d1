package mixes

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml/ast"

	"github.com/caserun/caserun/internal/near"
)

// SuiteFile is the file in a suite's directory that describes its programs.
const SuiteFile = "suite.yaml"

// Facts are what a suite's file says of a program, as a mix may say it of a job.
type Facts struct {
	KnownFault  bool
	Restartable *bool
}

// LoadSuite reads a suite's file and returns what it says of programs (Job.Program). has reports
// whether the suite has a program beside SuitePrograms.
//
//	programs:
//	  srad_v2: {faults: known, restartable: true}  Job.Program, or the default Job.Name
func LoadSuite(path string, has func(program string) bool) (map[string]Facts, error) {
	data, err := readWhole(path)
	if err != nil {
		return nil, fmt.Errorf("load suite: %w", err)
	}
	r := &yamlReader{file: path, has: has, wants: "programs: and what is known of each"}
	return readYAML(r, newPieces(newLines(path, bytes.NewReader(data))), r.suite)
}

func (r *yamlReader) suite(body ast.Node) map[string]Facts {
	f, found := r.fields(body, "the suite", []string{"programs"})["programs"]
	if !found {
		return nil
	}
	programs := r.mapping(f.value, "programs", "the suite's programs", func(name string) (unknown, remedy string) {
		if _, known := r.ofSuite(name); known {
			return "", ""
		}
		return "program", near.OrKnown(name, suitePrograms) + " (and the executables of the suite)"
	})
	known := map[string]Facts{}
	for name, f := range programs {
		fields, facts := r.fields(f.value, name, []string{"faults", "restartable"}), Facts{}
		if f, found := fields["faults"]; found {
			facts.KnownFault = r.faults(f.value)
		}
		if f, found := fields["restartable"]; found {
			facts.Restartable = new(r.flag(f.value, "restartable"))
		}
		program, _ := r.ofSuite(name)
		known[program] = facts
	}
	return known
}

// ofSuite returns the suite's program with this name, which may also be its jobs' default name.
func (r *yamlReader) ofSuite(name string) (program string, known bool) {
	for _, p := range suitePrograms {
		if name == p || name == labelOf(p) {
			return p, true
		}
	}
	return name, r.has != nil && r.has(name)
}
