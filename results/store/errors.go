package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// ErrFull is wrapped by every error that means that the store's file could not
// grow. Rows committed before it are safe.
var ErrFull = errors.New("no space left for the store")

// ErrNoRun is wrapped when a run that was asked for is not in the store.
var ErrNoRun = errors.New("no such run")

// ErrNoSweep is wrapped when a sweep that was asked for is not in the store.
var ErrNoSweep = errors.New("no such sweep")

// ErrOlder is wrapped when a store that is opened for reading has the schema of
// an earlier version: Open brings it up to date.
var ErrOlder = errors.New("its schema is older than this program's")

// ErrBusy is wrapped when another process works on a sweep, or on a cell of it.
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

// explain names the file and, where SQLite's code tells it, the remedy.
func explain(path, operation string, err error) error {
	if err == nil {
		return nil
	}
	var s sqlite3.Error
	if errors.As(err, &s) {
		switch {
		case s.Code == sqlite3.ErrFull, s.SystemErrno == syscall.ENOSPC,
			s.SystemErrno == syscall.EDQUOT, s.SystemErrno == syscall.EFBIG:
			return fmt.Errorf("store %s: %s: %w: free space on its file system or choose another with --db: %w",
				path, operation, ErrFull, err)
		case s.Code == sqlite3.ErrNotADB:
			return fmt.Errorf("store %s: %s: the file is not a SQLite database: choose another with --db: %w",
				path, operation, err)
		case s.Code == sqlite3.ErrCorrupt:
			return fmt.Errorf("store %s: %s: the file is damaged: restore a copy, or recover its rows with `sqlite3 %s .recover`: %w",
				path, operation, path, err)
		case s.Code == sqlite3.ErrBusy:
			return fmt.Errorf("store %s: %s: another program has held the file's write lock for over %v: %w",
				path, operation, lockPatience, err)
		case s.Code == sqlite3.ErrCantOpen && exists(path+"-wal"): // also to read, unless a program has it open
			return fmt.Errorf("store %[1]s: %[2]s: %[1]s-wal is not in the file yet, and the directory cannot be written: copy both to where it can, or open the store once as somebody who may: %[3]w",
				path, operation, err)
		case s.Code == sqlite3.ErrReadonly, s.Code == sqlite3.ErrPerm, s.Code == sqlite3.ErrCantOpen:
			return fmt.Errorf("store %s: %s: the file or its directory cannot be written: choose another with --db: %w",
				path, operation, err)
		}
	}
	return fmt.Errorf("store %s: %s: %w", path, operation, err)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ofRow reports whether an error concerns one row and leaves the transaction
// that it occurred in usable.
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
