package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/results"
)

// HolderLives reports whether the process of a run or a sweep that is recorded as running
// still lives. A process of another host counts as living, because this host cannot tell. A
// signal may not reach another user's process, which lives all the same. A record with this
// process's own number is of a dead process that had the number before, because a process
// opens the store before it begins anything.
func HolderLives(host string, pid int) bool {
	here, _ := os.Hostname() // empty where the system does not tell, as in a run's row
	if host != here {
		return true
	}
	err := unix.Kill(pid, 0)
	return pid != os.Getpid() && (err == nil || errors.Is(err, unix.EPERM))
}

// held is a store that no other program can open.
type held struct {
	*Store
	tx *sql.Tx // it keeps other programs from writing
}

// holdStore keeps other programs from writing to the store at path until release. It waits until no other program has the
// store open. The store has no journal beside it then, and can be replaced. tell takes what is waited for; it may be nil.
func holdStore(ctx context.Context, doing, path string, tell func(what string)) (*held, error) {
	s, err := OpenTelling(path, tell)
	if err != nil {
		return nil, err
	}
	stop := unlessSoon(tell, func() string {
		return fmt.Sprintf("store %s: waiting until no other program has it open, for %v at most", path, lockPatience)
	})
	err = setJournal(ctx, path, s.write, "DELETE")
	stop()
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, errors.Join(context.Cause(ctx), s.Close())
		}
		return nil, errors.Join(fmt.Errorf("%s: another program has the store open, so wait until it has ended: %w", doing, err), s.Close())
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, errors.Join(explain(path, doing, err), s.Close())
	}
	return &held{s, tx}, nil
}

func (h *held) release() error {
	_ = h.tx.Rollback() // it wrote nothing
	return h.Close()
}

// Standing is a sweep's status. A sweep whose process died without storing that is
// interrupted.
func Standing(w results.Sweep) results.Status {
	if w.Status == results.Running && !HolderLives(w.Host, *w.PID) {
		return results.Interrupted
	}
	return w.Status
}

// RunStanding is a run's status. A run whose process died without storing that is interrupted.
func RunStanding(r results.Run) results.Status {
	if p := r.Provenance; r.Status == results.Running && (p.PID == nil || !HolderLives(p.Host, *p.PID)) {
		return results.Interrupted
	}
	return r.Status
}
