package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/caserun/caserun/userfile"
)

// OpenReadOnly opens an existing store for reading. It neither changes rows nor migrates: for
// a store with an older schema the error wraps errOlder. Close leaves no new files beside the
// store. If this user may not write the store, OpenReadOnly reads a copy: see snapshot.
func OpenReadOnly(path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	if _, err := regular(path); err != nil {
		return nil, err
	}
	// SQLite keeps its journal beside the target of a link.
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	if err := checkJournals(path, target); err != nil {
		return nil, err
	}
	const attempts = 5
	for attempt := 1; ; attempt++ {
		inPlace := !mayWrite(target) && inUse(target)
		s, err := openForReading(path, target)
		if err == nil || !inPlace || inUse(target) || attempt == attempts {
			return s, err
		} // the program that had it open removed its journal: a copy is possible now
	}
}

// openForReading opens the store at target or a copy of it. path is the store's name in errors.
func openForReading(path, target string) (_ *Store, err error) {
	dir, file := "", target
	if !mayWrite(target) {
		if dir, err = snapshot(target, duplicate); err != nil {
			return nil, fmt.Errorf("store %s: copy it to a temporary file (TMPDIR says where), because it may only be read: %w", path, err)
		}
		if dir != "" {
			file = filepath.Join(dir, filepath.Base(target))
		}
	}
	s := newStore(path, nil, connect(file, readingQuery(file), readers, "query_only = ON"))
	s.opened, s.private = file, dir
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	ctx := context.Background()
	if err := identify(ctx, path, s.read); err != nil {
		return nil, err
	}
	have, want, err := versions(ctx, path, s.read)
	switch {
	case err != nil:
		return nil, err
	case have == 0:
		return nil, fmt.Errorf("store %s: the file is empty, so it holds no runs: name another file", path)
	case have < want:
		return nil, fmt.Errorf("store %s: %w: version %d, not %d", path, errOlder, have, want)
	}
	return s, nil
}

// OpenUpdated is OpenReadOnly for a store that an earlier version may have written. It migrates
// such a store first, which changes the file and keeps its content.
func OpenUpdated(path string) (*Store, error) {
	s, err := OpenReadOnly(path)
	if !errors.Is(err, errOlder) {
		return s, err
	}
	if s, err = Open(path); err == nil {
		err = s.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("bring it up to date (a copy that can be written will do): %w", err)
	}
	return OpenReadOnly(path)
}

// OpenUpdatedAs is OpenUpdated for a file that users know by another name: name is the store's
// Path and appears in its errors.
func OpenUpdatedAs(path, name string) (*Store, error) {
	s, err := OpenUpdated(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.path = name
	return s, nil
}

// file returns the path of the file that is open.
func (s *Store) file() string {
	if s.opened != "" {
		return s.opened
	}
	return s.path
}

// readingQuery returns the mode in which SQLite opens an existing file for reading. SQLite
// keeps files beside a store in WAL mode even while it only reads the store. It removes them at
// the last close only if it may write the store.
func readingQuery(path string) string {
	if mayWrite(path) {
		return "mode=rw"
	}
	return "mode=ro"
}

// mayWrite reports whether this user may write a store, its directory and the journal beside
// it.
func mayWrite(path string) bool {
	for _, part := range []string{filepath.Dir(path), path, path + "-wal", path + "-shm"} {
		if err := syscall.Access(part, 2); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// snapshot copies a store that nobody has open to a directory of its own. Without a copy SQLite
// would leave files beside a store that it may not write, and the store's owner could not use
// them.
//
// A store with a journal beside it must be read in place, together with the journal. snapshot
// then makes no copy and dir is empty. If another program writes during the copy, a journal
// appears or the file changes, and snapshot tries again.
func snapshot(path string, duplicate func(from, to string) error) (dir string, err error) {
	const attempts = 5
	for range attempts {
		before, err := os.Stat(path)
		if err != nil || inUse(path) {
			return "", err
		}
		if dir, err = os.MkdirTemp("", "caserun-store-*"); err != nil {
			return "", userfile.TemporaryError(err)
		}
		err = duplicate(path, filepath.Join(dir, filepath.Base(path)))
		used := inUse(path) // before Stat: a program that ends in between has changed the file
		after, gone := os.Stat(path)
		if err = errors.Join(err, gone); err == nil && !used && unchanged(before, after) {
			return dir, nil
		}
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("it changed during each of %d attempts", attempts)
}

// inUse reports whether a program has the store open or left its journal.
func inUse(path string) bool { return exists(path+"-wal") || exists(path+"-journal") }

func unchanged(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// duplicate copies a file. Closing the file would drop the locks that this process holds on
// it. The process holds none, because a store that SQLite has open has a journal and is not
// copied.
func duplicate(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
