package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// outputs are the commands that write a file where a user says, without its name.
var outputs = []string{"report 1 --html", "export --markdown", "export --benchfmt", "export --perfetto", "export --openmetrics", "export --latex", "export --bundle",
	"regress --baseline 1 --candidate 2 --report-junit", "mixes gen -o", "mixes new -o", "history -o", "data graph --nodes 9 -o", "mix W1 --node sim:1xV100 --log-json"}

// Whatever command writes a file, and whatever is there, the same happens (docs/reference/exports.md#where-outputs-go).
func TestOutputsHaveOneRule(t *testing.T) {
	dir := inTempDir(t)
	simulate(t, "--scheds", "sa,cg", "--reps", "1")
	if err := os.Mkdir("f", 0o755); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, "f", name+".tar.gz") }
	if err := errors.Join(os.WriteFile(at("mine"), []byte("mine"), 0o640), os.Link(at("mine"), at("hard")), os.Symlink(at("mine"), at("link")),
		os.Symlink("nothing", at("dangling")), os.Mkdir(at("directory"), 0o755), os.Symlink(at("directory"), at("to directory")), os.Symlink("/dev/null", at("null")),
		os.Symlink("/dev/full", at("full"))); err != nil {
		t.Fatal(err)
	}
	list := func() string {
		entries, err := os.ReadDir("f")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name()+" "+e.Type().String())
		}
		return strings.Join(names, "\n")
	}
	before := list()
	for _, command := range outputs {
		for _, c := range []struct {
			name   string
			status int
			says   string
		}{
			{at("mine"), exitUsage, "exist"},
			{at("hard"), exitUsage, "exist"},
			{at("link"), exitUsage, "exist"},
			{at("dangling"), exitUsage, "it is a link to nothing, which does not exist"},
			{at("directory"), exitUsage, "it is a directory: name a file"},
			{at("to directory"), exitUsage, "it is a directory: name a file"},
			{at("mine") + "/below.tgz", exitUsage, "not a directory"},
			{at("full"), exitInfrastructure, "no space left on device"},
			{at("null"), exitOK, ""},
		} {
			status, _, errs := caserun(t, append(strings.Fields(command), c.name)...)
			if c.status == exitOK && strings.HasPrefix(command, "regress") {
				c.status = status // whatever the gate says
			}
			if status != c.status || !strings.Contains(errs, c.says) || status != exitOK && c.says != "" && !strings.Contains(errs, c.name) {
				t.Errorf("%s %s: exit %d, want %d with %q: %s", command, c.name, status, c.status, c.says, errs)
			}
		}
		if after := list(); after != before {
			t.Fatalf("%s left\n%s\nbefore were\n%s", command, after, before)
		}
	}
	if text := mustRead(t, at("mine")); text != "mine" {
		t.Errorf("the file has %q", text)
	}
}

// With --force, or over an earlier output of its kind, a file is replaced and its other names keep it.
func TestReplacedOutputsLeaveOtherNames(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,cg", "--reps", "1")
	for _, command := range outputs[:8] {
		name := "file.tar.gz"
		earlier := append(strings.Fields(command), name)
		if strings.HasPrefix(command, "export") {
			earlier = append(earlier, "--force")
		}
		if _, _, errs := caserun(t, earlier...); mustRead(t, name) == "" {
			t.Fatalf("%s: %s", command, errs)
		}
		if err := errors.Join(os.Chmod(name, 0o640), os.Link(name, "other"), os.Symlink(name, "link.tar.gz")); err != nil {
			t.Fatal(err)
		}
		old, err := os.Stat("other")
		if err != nil {
			t.Fatal(err)
		}
		again := append([]string{}, earlier...)
		again[len(strings.Fields(command))] = "link.tar.gz"
		if status, _, errs := caserun(t, again...); status == exitUsage || status == exitInfrastructure {
			t.Errorf("%s: exit %d: %s", command, status, errs)
		}
		link, linkErr := os.Lstat("link.tar.gz")
		info, err := os.Stat(name)
		other, otherErr := os.Stat("other")
		if err := errors.Join(err, linkErr, otherErr); err != nil {
			t.Fatal(err)
		}
		if link.Mode().Type() != os.ModeSymlink || os.SameFile(info, old) || !os.SameFile(other, old) || info.Mode() != 0o640 {
			t.Errorf("%s: link %v, mode %v, replaced %v, the other name kept %v", command, link.Mode(), info.Mode(), !os.SameFile(info, old), os.SameFile(other, old))
		}
		if err := errors.Join(os.Remove(name), os.Remove("other"), os.Remove("link.tar.gz")); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(".*"); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %q (%v)", left, err)
	}
}

// Two outputs of one command must be two files, and neither may be the store. A dash names neither a directory nor a store.
func TestOutputsAreApart(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "1")
	if err := errors.Join(os.Mkdir("d", 0o755), os.Rename("caserun.db", "d/paper.md"), syscall.Mkfifo("fifo", 0o600),
		os.Symlink("d/paper.md", "link.db"), os.Symlink("nothing", "dangling.db")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CASERUN_DB", "d/paper.md")
	before := mustRead(t, "d/paper.md")
	for _, c := range []struct{ args, says string }{
		{"paper -o d --force", "write d/paper.md: that is a file of the store d/paper.md"},
		{"paper --run --node sim:4xV100 -o d --db new.db --log-json d/table-3.csv --force", "--log-json d/table-3.csv: --out writes that file"},
		{"export --markdown fifo --benchfmt ./fifo", "which another export writes"},
		{"report 1 --html d/paper.md-wal", "that is a file of the store"},
		{"export --markdown d/paper.md-journal", "that is a file of the store"},
		{"report 1 --html d/.paper.md.merge", "that is a file of the store"},
		{"mix W1 --node sim:1xV100 --log-json d/.paper.md.merge", "that is a file of the store"},
		{"mix W1 --node sim:1xV100 --db new.db --log-json ./.new.db.merge", "that is a file of the store"},
		{"history -o d/paper.md-wal", "that is a file of the store"},
		{"mixes learn W1 -o d/.paper.md.merge", "that is a file of the store"},
		{"profile fit 1 -o d/paper.md-shm", "that is a file of the store"},
		{"report 1 --db link.db --html d/paper.md-wal", "that is a file of the store"},
		{"report 1 --db link.db --html d/.paper.md.merge", "that is a file of the store"},
		{"mix W1 --node sim:1xV100 --db dangling.db", "store dangling.db: it is a link to nothing, which does not exist"},
		{"sweep --resume latest --db dangling.db", "store dangling.db: it is a link to nothing, which does not exist"},
		{"store merge dangling.db d/paper.md", "merge into dangling.db: it is a link to nothing, which does not exist"},
		{"mix W1 --node sim:1xV100 --db -", "db -: it cannot be standard input or output"},
		{"data --data -", "data -: it cannot be standard input or output"},
		{"mix W1 --node sim:1xV100 --runs -", "runs -: it cannot be standard input or output"},
		{"store merge - d/paper.md", "merge into -: a store cannot be standard output"},
	} {
		if status, _, errs := caserun(t, strings.Fields(c.args)...); status != exitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, status, c.says, errs)
		}
	}
	if mustRead(t, "d/paper.md") != before {
		t.Error("the store is another now")
	}
	for _, name := range []string{"-", "nothing"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("there is a file %s", name)
		}
	}
	status, _, errs := caserun(t, "report", "--db", "dangling.db")
	if status != exitInfrastructure || !strings.Contains(errs, "it is a link to nothing, which does not exist") {
		t.Errorf("report of no store behind a link: exit %d: %s", status, errs)
	}
}

// A command that used one of two names of a store would hide the runs that are written under the other.
func TestStoreWithTwoNamesIsRefused(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa", "--reps", "1")
	if err := os.Link("caserun.db", "other.db"); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"report", "export --markdown new.md", "sweep list", "mix W1 --node sim:1xV100", "sweep --resume latest", "store merge new.db", "store merge caserun.db"} {
		args := append(strings.Fields(command), "--db", "other.db")
		if strings.HasPrefix(command, "store") {
			args = append(strings.Fields(command), "other.db")
		}
		if status, _, errs := caserun(t, args...); status != exitInfrastructure || !strings.Contains(errs, "the file has another name (a hard link)") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", command, status, errs)
		}
	}
	if err := os.Remove("caserun.db"); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := caserun(t, "report", "--db", "other.db"); status != exitOK {
		t.Errorf("with one name: exit %d: %s", status, errs)
	}
}
