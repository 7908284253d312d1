package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Two names of a store would have two journals, of which each hides the runs of the other.
func TestStoreWithTwoNames(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	path, other, link := in("runs.db"), in("other.db"), in("link.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	// The other name may come while a program writes, which goes on.
	if err := errors.Join(os.Link(path, other), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		for _, name := range []string{path, other, link} {
			for what, open := range map[string]func(string) (*Store, error){"write": Open, "read": OpenReadOnly, "update": OpenUpdated} {
				if _, err := open(name); err == nil || !strings.Contains(err.Error(), "store "+name+": the file has another name") || !strings.Contains(err.Error(), "find DIR -samefile "+name) {
					t.Errorf("%s %s: %v", what, name, err)
				}
			}
			if _, err := Merge(t.Context(), name, []string{"part.db"}, Merging{}); err == nil || !strings.Contains(err.Error(), "the file has another name") {
				t.Errorf("merge into %s: %v", name, err)
			}
			if _, err := Merge(t.Context(), in("new.db"), []string{name}, Merging{}); err == nil || !strings.Contains(err.Error(), "the file has another name") {
				t.Errorf("merge %s: %v", name, err)
			}
		}
	}
	refused()
	begin(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refused()
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	mustHave(t, path, 2)
}

// A merge makes no second name of the new store, not even for a moment.
func TestMergeMakesOneName(t *testing.T) {
	out := filepath.Join(t.TempDir(), "all.db")
	w, err := openWorkplace("merge into "+out, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.make(mergedFile), w.publish(out, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(w.file(mergedFile)); err == nil { // a kill here would leave it
		t.Error("the merged store has two names")
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// A store is not made behind a link.
func TestOpenALinkThatLeadsNowhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.Symlink("nowhere.db", path); err != nil {
		t.Fatal(err)
	}
	for what, open := range map[string]func(string) (*Store, error){"write": Open, "read": OpenReadOnly} {
		if _, err := open(path); err == nil || !strings.Contains(err.Error(), path+": it is a link to nowhere.db, which does not exist: make that file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%v are there", left)
	}
}

// What a user adds to a store does not change what it holds, nor what is exported.
func TestStoreWithAUsersSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	before, err := s.Tables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	add := func(statements ...string) {
		t.Helper()
		if err := execute(t.Context(), s.write, statements...); err != nil {
			t.Fatal(err)
		}
	}
	add("CREATE TABLE mine (x)", "CREATE TRIGGER harmless AFTER INSERT ON mine BEGIN DELETE FROM mine; END",
		"CREATE VIEW fast AS SELECT mix FROM run", "CREATE VIEW broken AS SELECT x FROM nowhere")
	if tables, err := s.Tables(t.Context()); err != nil || !slices.EqualFunc(before, tables, func(a, b Table) bool { return a.Name == b.Name }) {
		t.Errorf("the tables are %v (%v), want %v", tables, err, before)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path); err != nil {
		t.Fatal(err)
	}
	add(`CREATE TRIGGER "it's ""odd""" AFTER UPDATE ON Run BEGIN DELETE FROM job; END`, "CREATE TRIGGER rows BEFORE INSERT ON _segment BEGIN DELETE FROM job; END")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, open := range map[string]func() error{
		"open":       func() error { _, err := Open(path); return err },
		"merge into": func() error { _, err := Merge(t.Context(), path, []string{"part.db"}, Merging{}); return err },
	} {
		if err := open(); err == nil || !strings.Contains(err.Error(), `DROP TRIGGER "it's ""odd"""; DROP TRIGGER "rows";`) || strings.Contains(err.Error(), "harmless") {
			t.Errorf("%s: %v", what, err)
		}
	}
	mustHave(t, path, 1) // reading runs no trigger
}
