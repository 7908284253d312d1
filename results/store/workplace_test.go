package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// A merge takes no file and no directory for its own that lies where its own would.
func TestMergeLeavesFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	a := newPart(t, filepath.Join(dir, "a.db"), false, 1)
	a.run(0, results.Complete, 0, 0, 0)
	part := a.close()
	for name, c := range map[string]struct {
		put     func(place, precious string) error // puts something where the merge's directory would be
		refused bool
	}{
		"a link to a directory": {func(place, precious string) error { return os.Symlink(filepath.Dir(precious), place) }, true},
		"a file":                {func(place, _ string) error { return os.WriteFile(place, nil, 0o600) }, true},
		"a FIFO":                {func(place, _ string) error { return syscall.Mkfifo(place, 0o600) }, true},
		"a directory that all may write": {func(place, _ string) error {
			return errors.Join(os.Mkdir(place, 0o700), os.Chmod(place, 0o777))
		}, true},
		"a directory of another user": {func(place, _ string) error {
			if os.Geteuid() != 0 {
				return os.WriteFile(place, nil, 0o600)
			}
			return errors.Join(os.Mkdir(place, 0o700), os.Chown(place, 12345, 12345))
		}, true},
		"a directory with links": {func(place, precious string) error {
			return errors.Join(os.Mkdir(place, 0o700), os.Symlink(precious, filepath.Join(place, workFile)),
				os.Link(precious, filepath.Join(place, mergedFile)), os.WriteFile(filepath.Join(place, "mine.db"), nil, 0o600))
		}, false},
	} {
		dir := t.TempDir()
		precious, out := filepath.Join(dir, "precious", "caserun.db"), filepath.Join(dir, "s", "all.db")
		place := filepath.Join(dir, "s", ".all.db.merge")
		if err := errors.Join(os.Mkdir(filepath.Dir(precious), 0o755), os.Mkdir(filepath.Dir(out), 0o755),
			os.WriteFile(precious, []byte("precious"), 0o600), c.put(place, precious)); err != nil {
			t.Fatal(err)
		}
		_, err := Merge(t.Context(), out, []string{part}, Merging{})
		if c.refused && (err == nil || !strings.Contains(err.Error(), place+" is there, and is not a directory that a merge or vacuum of this user made")) ||
			!c.refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := bytesOf(t, precious); text != "precious" {
			t.Errorf("%s: the file of others is now %.20q", name, text)
		}
		if _, err := os.Lstat(filepath.Join(place, "mine.db")); !c.refused && err != nil {
			t.Errorf("%s: a file that the merge did not make: %v", name, err)
		}
		if _, err := os.Lstat(place); err != nil {
			t.Errorf("%s: it is gone: %v", name, err)
		}
	}
}

// A merge into a new file replaces nothing that was made meanwhile.
func TestMergeReplacesNoNewFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "all.db")
	w, err := openWorkplace("merge into "+out, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.make(mergedFile), os.WriteFile(out, []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := w.publish(out, false); !errors.Is(err, fs.ErrExist) || bytesOf(t, out) != "new" {
		t.Errorf("%v, and the file has %q", err, bytesOf(t, out))
	}
	if err := w.publish(out, true); err != nil || bytesOf(t, out) != "" {
		t.Errorf("%v, and the file has %q", err, bytesOf(t, out))
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// A merge replaces no link, and makes nothing behind one.
func TestMergeIntoALinkThatLeadsNowhere(t *testing.T) {
	out := filepath.Join(t.TempDir(), "all.db")
	if err := os.Symlink("nowhere.db", out); err != nil {
		t.Fatal(err)
	}
	if _, err := Merge(t.Context(), out, []string{"part.db"}, Merging{}); err == nil || !strings.Contains(err.Error(), out+": it is a link to nowhere.db, which does not exist") {
		t.Error(err)
	}
	if to, err := os.Readlink(out); err != nil || to != "nowhere.db" {
		t.Errorf("the link leads to %s (%v)", to, err)
	}
}

// SQLite would bring what a journal of a store that is gone has into the merged store.
func TestMergeRefusesLeftoverJournals(t *testing.T) {
	for _, suffix := range journals {
		out := filepath.Join(t.TempDir(), "all.db")
		if err := os.WriteFile(out+suffix, []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Merge(t.Context(), out, []string{"part.db"}, Merging{}); err == nil || !strings.Contains(err.Error(), out+suffix+" is left of a store that is not there") {
			t.Errorf("%s: %v", suffix, err)
		}
		if _, err := os.Lstat(out); err == nil || bytesOf(t, out+suffix) != "rows" {
			t.Errorf("%s: the merge made a store, or changed the journal", suffix)
		}
	}
}

// SQLite opens no file as a store's journal that is none: it would wait for a FIFO, and write into a hard link.
func TestOpenChecksJournals(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.db")
	s, err := Open(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := bytesOf(t, made)
	for name, put := range map[string]func(place, precious string) error{
		"link":      func(place, precious string) error { return os.Symlink(precious, place) },
		"hard link": func(place, precious string) error { return os.Link(precious, place) },
		"FIFO":      func(place, _ string) error { return syscall.Mkfifo(place, 0o600) },
		"directory": func(place, _ string) error { return os.Mkdir(place, 0o755) },
		"of another user": func(place, _ string) error {
			if os.Geteuid() != 0 {
				return os.Mkdir(place, 0o755)
			}
			return errors.Join(os.WriteFile(place, []byte("rows"), 0o644), os.Chown(place, 12345, 12345))
		},
		"text":  func(place, _ string) error { return os.WriteFile(place, []byte("my notes on q.db\n"), 0o600) },
		"byte":  func(place, _ string) error { return os.WriteFile(place, []byte("a"), 0o600) },
		"page":  func(place, _ string) error { return os.WriteFile(place, bytes.Repeat([]byte("text"), 1024), 0o600) },
		"other": func(place, _ string) error { return os.WriteFile(place, []byte("SQLite format 3\x00"), 0o600) },
	} {
		for _, suffix := range journals {
			dir := t.TempDir()
			path, precious := filepath.Join(dir, "s.db"), filepath.Join(dir, "precious")
			if err := errors.Join(os.WriteFile(path, []byte(whole), 0o644), os.WriteFile(precious, []byte("precious"), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := put(path+suffix, precious); err != nil {
				t.Fatal(err)
			}
			content := func() (text string) {
				if info, err := os.Stat(path + suffix); err == nil && info.Mode().IsRegular() { // a FIFO is not opened
					text = bytesOf(t, path+suffix)
				}
				return text
			}
			before := content()
			for _, open := range []func(string) (*Store, error){Open, OpenReadOnly} {
				s, err := open(path)
				if err == nil {
					err = s.Close()
				}
				if err == nil || !strings.Contains(err.Error(), path+suffix) || !strings.Contains(err.Error(), "remove it") {
					t.Errorf("%s%s: %v", name, suffix, err)
				}
			}
			if text := bytesOf(t, precious); text != "precious" {
				t.Errorf("%s%s: the file of others is now %.20q", name, suffix, text)
			}
			if after := content(); after != before {
				t.Errorf("%s%s: it is now %.20q", name, suffix, after)
			}
			fresh := filepath.Join(t.TempDir(), "new.db")
			if err := put(fresh+suffix, precious); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(fresh); err == nil && name != "of another user" { // whose store it was nobody knows
				t.Errorf("%s%s beside a store that is not there: it was opened", name, suffix)
				_ = s.Close()
			}
		}
	}
	// What several users may write has journals of each of them.
	dir := t.TempDir()
	file := func(name string, mode fs.FileMode, text string, owner int) fs.FileInfo {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := unix.Chown(path, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if why := notJournal(file("shared.db", 0o664, "", 1), file("shared.db-wal", 0o664, "rows", 2)); why != "" {
		t.Error(why)
	}
	if why := notJournal(file("own.db", 0o644, "", 1), file("own.db-wal", 0o644, "", 2)); why != "" {
		t.Errorf("an empty journal, which a reader makes: it %s", why)
	}
}

// What a killed program or a full disk leaves of a journal at any moment is a journal.
func TestOpenTakesUnfinishedJournals(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from.db")
	remains := map[string][]byte{} // of a killed program, by suffix
	take := func(suffix string) {
		t.Helper()
		remains[suffix] = []byte(bytesOf(t, from+suffix))
		if len(remains[suffix]) < 32 {
			t.Fatalf("%s has %d bytes", suffix, len(remains[suffix]))
		}
	}
	s, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	take("-wal")
	take("-shm")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = open(from, func(string) (string, error) { return "NFS", nil }); err != nil { // which has a rollback journal
		t.Fatal(err)
	}
	whole := bytesOf(t, from)
	conn, err := s.write.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := execute(t.Context(), conn, "PRAGMA synchronous = FULL", "PRAGMA cache_size = 1", "BEGIN IMMEDIATE",
		"CREATE TABLE big (t TEXT) STRICT", "INSERT INTO big SELECT hex(zeroblob(3000)) FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8]')"); err != nil {
		t.Fatal(err)
	}
	take("-journal")
	if err := execute(t.Context(), conn, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for suffix, of := range remains {
		begins := beginnings[suffix][0]
		if !slices.ContainsFunc(beginnings[suffix], func(b string) bool { return strings.HasPrefix(string(of), b) }) {
			t.Errorf("%s of SQLite begins with %x", suffix, of[:len(begins)])
		}
		lengths := []int{0, 3, 8, 12, 28, 32, 512, len(of)}
		if suffix == "-shm" {
			lengths = []int{0, 3, 4096, len(of)}
		}
		for _, n := range lengths {
			n = min(n, len(of))
			for _, zeros := range []int{0, 1, len(begins)} { // at the end of the first bytes
				left := slices.Clone(of[:n])
				clear(left[min(n, len(begins)-zeros):min(n, len(begins))])
				path := filepath.Join(t.TempDir(), "s.db")
				if err := errors.Join(os.WriteFile(path, []byte(whole), 0o600), os.WriteFile(path+suffix, left, 0o600)); err != nil {
					t.Fatal(err)
				}
				s, err := Open(path)
				if err != nil {
					t.Errorf("%s of %d bytes, %d zeros: %v", suffix, n, zeros, err)
					continue
				}
				if runs, err := s.Runs(t.Context(), Filter{}); err != nil || len(runs) != 1 {
					t.Errorf("%s of %d bytes, %d zeros: %d runs, %v", suffix, n, zeros, len(runs), err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
