package suites

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
)

// Command is the job of a command that a user types. A program of the suite's is that. Any other name is looked up as a
// shell does.
func Command(suite, data string, command []string) (mixes.Job, error) {
	name := command[0]
	s, err := Own(suite, data)
	if err == nil && !strings.Contains(name, "/") && !slices.Contains(mixes.SuitePrograms(), name) && !s.Has(name) {
		if name, err = exec.LookPath(name); err != nil {
			err = fmt.Errorf("program %s: %w", command[0], err)
		}
	}
	if _, notMix := mixes.Lookup(command[0]); err != nil && notMix == nil {
		return mixes.Job{}, &MixError{fmt.Errorf("%s is a mix: caserun profile --mix %[1]s", command[0])}
	}
	if err != nil {
		return mixes.Job{}, err
	}
	return mixes.FromCommand(append([]string{name}, command[1:]...)), nil
}
