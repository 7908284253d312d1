package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// ErrFull is wrapped if the store's file could not grow. Rows committed before are safe.
var ErrFull = errors.New("no space left for the store")

// errGone is wrapped if the store's file was removed or replaced while it was open for writing. What this program wrote
// is lost.
var errGone = errors.New("somebody has removed or replaced the file, and with it what this program wrote")

// ErrNoRun is wrapped if the requested run is not in the store.
var ErrNoRun = errors.New("no such run")

// ErrNoSweep is wrapped if the requested sweep is not in the store.
var ErrNoSweep = errors.New("no such sweep")

// errOlder is wrapped if a store opened for reading has the schema of an earlier version. Open
// and OpenUpdated migrate such a store.
var errOlder = errors.New("its schema is older than this program's")

// ErrBusy is wrapped if another process works on a sweep or on one of its cells.
var ErrBusy = errors.New("another process works on it")

// HeldError is an ErrBusy that says which process works on the sweep.
type HeldError struct {
	Sweep int64
	Host  string
	PID   int
}

func (e HeldError) Error() string {
	return fmt.Sprintf("sweep %d is run by process %d of host %s", e.Sweep, e.PID, e.Host)
}

func (e HeldError) Unwrap() error { return ErrBusy }

// explain adds the file's name and, for the SQLite errors that have one, the remedy.
func explain(path, operation string, err error) error {
	if err == nil {
		return nil
	}
	var s sqlite3.Error
	if errors.As(err, &s) {
		switch {
		case isFull(err):
			return fmt.Errorf("store %s: %s: %w: free space on its file system or name another store: %w",
				path, operation, ErrFull, err)
		case s.Code == sqlite3.ErrNotADB:
			return fmt.Errorf("store %s: %s: the file is not a SQLite database: name another store: %w",
				path, operation, err)
		case s.Code == sqlite3.ErrCorrupt:
			return fmt.Errorf("store %s: %s: the file is damaged: restore a copy, or recover its rows with `sqlite3 %s .recover`: %w",
				path, operation, path, err)
		case s.Code == sqlite3.ErrBusy:
			return fmt.Errorf("store %s: %s: another program has held the file's write lock for over %v: %w",
				path, operation, lockPatience, err)
		case s.Code == sqlite3.ErrCantOpen && exists(path+"-wal"): // reading fails too, unless a program has it open
			return fmt.Errorf("store %[1]s: %[2]s: %[1]s-wal is not in the file yet, and the directory cannot be written: copy both files to a writable directory, or open the store once as a user who may write it: %[3]w",
				path, operation, err)
		case s.Code == sqlite3.ErrReadonly, s.Code == sqlite3.ErrPerm, s.Code == sqlite3.ErrCantOpen:
			return fmt.Errorf("store %s: %s: the file or its directory cannot be written: name another store: %w",
				path, operation, err)
		}
	}
	return fmt.Errorf("store %s: %s: %w", path, operation, err)
}

// isFull reports whether SQLite found no space.
func isFull(err error) bool {
	var s sqlite3.Error
	return errors.As(err, &s) && (s.Code == sqlite3.ErrFull || s.SystemErrno == syscall.ENOSPC ||
		s.SystemErrno == syscall.EDQUOT || s.SystemErrno == syscall.EFBIG)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ofRow reports whether an error concerns one row only, so that its transaction can continue.
func ofRow(err error) bool {
	var s sqlite3.Error
	if !errors.As(err, &s) {
		return true // database/sql refused to convert an argument
	}
	switch s.Code {
	case sqlite3.ErrConstraint, sqlite3.ErrMismatch, sqlite3.ErrTooBig, sqlite3.ErrRange:
		return true
	}
	return false
}
