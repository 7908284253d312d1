package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/results/regress"
	"github.com/caserun/caserun/results/store/disktest"
	"github.com/caserun/caserun/runner/profiles"
)

// few is how many bytes of each file a full disk takes here.
const few = 20

// A CI job that finds a report takes it for a whole one.
func TestFullDiskKeepsTheEarlierJUnitReport(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "gate.xml")
	earlier := "<testsuites/>"
	if err := os.WriteFile(path, []byte(earlier), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := disktest.WhileFull(t, few, func() error { return writeJUnit(t.Context(), path, regress.Report{}, nil) }); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("error %v, want one of a full disk", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != earlier {
		t.Errorf("the report is %q (%v), want what was there", text, err)
	}
}

// What was measured before the disk was full is measured, and the file is whole.
func TestFullDiskKeepsTheEarlierProfiles(t *testing.T) {
	if !disktest.InItsOwnProcess(t) {
		return
	}
	path := filepath.Join(t.TempDir(), "new.csv")
	profile := newProfile()
	profile.SetContext(t.Context())
	out, end, err := newRecords(profile, path)
	if err != nil {
		t.Fatal(err)
	}
	rows := profiles.NewWriter(out)
	first := profiles.Profile{Job: "first", Command: "./first", Kernels: profiles.Untraced}
	if err := rows.Write(first); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := profiles.Profile{Job: "second", Command: "./second", Kernels: profiles.Untraced}
	err = disktest.WhileFull(t, uint64(len(want)+few), func() error { return rows.Write(second) })
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "./second") {
		t.Errorf("error %v, want one of a full disk that names the file and the command", err)
	}
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, want) {
		t.Errorf("the file is %q (%v), want %q", text, err, want)
	}
	if err := errors.Join(rows.Write(second), end(true)); err != nil { // there is room again
		t.Error(err)
	}
	set, err := profiles.Load(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"./first", "./second"} {
		if _, err := set.Lookup(mixes.Job{Program: program}); err != nil {
			t.Error(err)
		}
	}
}

// A command fails if what it prints cannot be written, whatever prints it.
func TestFullDiskUnderStandardOutput(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,cg", "--reps", "1")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var commands [][]string
	eachCommand(newRoot(), func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		commands = append(commands, append(path, "--help"), append([]string{"help"}, path...))
	})
	for _, shell := range []string{"bash", "fish", "powershell", "zsh"} {
		commands = append(commands, []string{"completion", shell}, []string{"completion", shell, "--no-descriptions"})
	}
	for _, args := range []string{"--version", "", "mixes", "mixes list", "mixes show W1", "mixes show W1 --yaml", "mixes new", "mixes gen", "schedulers", "report", "report 1",
		"report --html -", "report --trend throughput", "compare latest", "paper", "sweep list", "sweep show 1", "history", "mix --show-config", "data graph --nodes 9", "sweep --mixes W1 --scheds sa --node sim:1xV100 --dry-run",
		"mix W1 --node sim:1xV100", "mix W1 --node sim:1xV100 --format csv", "mix W1 --node sim:1xV100 --format json", "export --markdown -", "export --benchfmt -", "export --openmetrics -", "export --latex -", "export --perfetto -", "__complete mix W", "regress --baseline 1 --candidate 2", "replay 1", "schedulers test sa --workloads 1"} {
		commands = append(commands, strings.Fields(args))
	}
	for _, args := range commands {
		var stderr strings.Builder
		if status := run(t.Context(), args, nil, full, &stderr); status != exitInfrastructure || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("caserun %q: exit %d, want %d: %s", args, status, exitInfrastructure, stderr.String())
		}
	}
	for args, says := range map[string]string{
		"mix W1 --node sim:1xV100":                                      "what was measured is stored: caserun report ",
		"sweep --mixes W1 --scheds sa --node sim:1xV100 --reps 1":       "what was measured is stored: caserun sweep show ",
		"paper --run --node sim:1xV100 --as 4xV100 --mixes W1 --reps 1": "what was measured is stored: caserun paper --sweep ",
		"store merge all.db caserun.db caserun.db":                      "the merge is done: caserun sweep list --db all.db shows what there is",
	} {
		var stderr strings.Builder
		if status := run(t.Context(), strings.Fields(args), nil, full, &stderr); status != exitInfrastructure || !strings.Contains(stderr.String(), "no space left on device; "+says) {
			t.Errorf("caserun %s: exit %d, want %q: %s", args, status, says, stderr.String())
		}
	}
}
