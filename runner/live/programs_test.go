package live

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/mixes"
)

// What a job runs and where is settled, or refused, before any job starts.
func TestResolve(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	needle := filepath.Join(dir, "needle")
	if err := os.WriteFile(needle, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	suite, err := OpenSuite(dir, data)
	if err != nil {
		t.Fatal(err)
	}
	ofSuite := mixes.Job{Program: "needle", Args: []string{"1024", "10"}}
	own := mixes.Job{Program: "/bin/sh"}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if _, dirs, err := suite.Resolve([]mixes.Job{own}); err != nil || dirs[0] != here {
		t.Errorf("a program of the user's own works in %v (%v), want %s", dirs, err, here)
	}
	_, _, err = suite.Resolve([]mixes.Job{ofSuite, ofSuite})
	if err == nil || strings.Count(err.Error(), data+" is no directory: caserun data makes it") != 1 {
		t.Errorf("without the data directory: %v", err)
	}
	own.Dir = needle
	if _, _, err = suite.Resolve([]mixes.Job{own}); err == nil || !strings.Contains(err.Error(), needle+" is no directory: name one that exists with dir in the mix") {
		t.Errorf("with a file as directory: %v", err)
	}
	if err := os.Mkdir(data, 0o755); err != nil {
		t.Fatal(err)
	}
	programs, dirs, err := suite.Resolve([]mixes.Job{ofSuite})
	if err != nil || programs[0] != needle || dirs[0] != data {
		t.Errorf("%v in %v (%v), want %s in %s", programs, dirs, err, needle, data)
	}
}
