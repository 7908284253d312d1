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
)

// OpenReadOnly opens an existing store for reading. It changes no row, and does
// not migrate: a store with an older schema is an error that says how to bring it
// up to date. Close leaves nothing beside the file that was not there before. Of a
// store that this user may not write, it reads a copy: see snapshot.
func OpenReadOnly(path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	if _, err := regular(path); err != nil {
		return nil, err
	}
	// What is beside a link's target is what counts.
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	const attempts = 5
	for attempt := 1; ; attempt++ {
		inPlace := !mayWrite(target) && inUse(target)
		s, err := openForReading(path, target)
		if err == nil || !inPlace || inUse(target) || attempt == attempts {
			return s, err
		} // who had it open took its journal away: a copy will do now
	}
}

// openForReading opens the store, which is at target, or a copy of it.
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
		return nil, fmt.Errorf("store %s: the file holds no runs yet", path)
	case have < want:
		return nil, fmt.Errorf("store %s: %w: version %d, not %d", path, ErrOlder, have, want)
	}
	return s, nil
}

// OpenUpdated is OpenReadOnly for a store that an earlier version may have
// written: it is brought up to date first, which changes the file and keeps what
// is in it.
func OpenUpdated(path string) (*Store, error) {
	s, err := OpenReadOnly(path)
	if !errors.Is(err, ErrOlder) {
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

// OpenUpdatedAs is OpenUpdated for a file that stands for another: name is the
// store's Path, and what its errors say.
func OpenUpdatedAs(path, name string) (*Store, error) {
	s, err := OpenUpdated(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.path = name
	return s, nil
}

// file is the path of the file that is open.
func (s *Store) file() string {
	if s.opened != "" {
		return s.opened
	}
	return s.path
}

// readingQuery is how SQLite is to open an existing file for reading. It keeps
// files beside a store in WAL mode also while that is only read, and removes them
// at the last close only where it could have written the store.
func readingQuery(path string) string {
	if mayWrite(path) {
		return "mode=rw"
	}
	return "mode=ro"
}

// mayWrite reports whether this user may write a store, and what is beside it.
func mayWrite(path string) bool {
	for _, part := range []string{filepath.Dir(path), path, path + "-wal", path + "-shm"} {
		if err := syscall.Access(part, 2); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// snapshot copies a store that nobody has open to a directory of its own, because
// SQLite could not remove what it would keep beside one that it may not write, and
// who may write it could not use that. A store that has its journal beside it must
// be read with that, where it is: then there is no copy, and dir is empty. Somebody
// may begin to write meanwhile: the journal is there then, or the file changed.
func snapshot(path string, duplicate func(from, to string) error) (dir string, err error) {
	const attempts = 5
	for range attempts {
		before, err := os.Stat(path)
		if err != nil || inUse(path) {
			return "", err
		}
		if dir, err = os.MkdirTemp("", "caserun-store-*"); err != nil {
			return "", err
		}
		err = duplicate(path, filepath.Join(dir, filepath.Base(path)))
		used := inUse(path) // first: a program that ends now has changed the file
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

// inUse reports whether a program has the store open, or left its journal.
func inUse(path string) bool { return exists(path+"-wal") || exists(path+"-journal") }

func unchanged(before, after fs.FileInfo) bool {
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

// duplicate copies a file. To close it drops the locks that this process has on
// it, which are none: SQLite has open what has a journal, and that is not copied.
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
