package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caserun/caserun/results"
)

// newUID names something by what makes it unique: 128 bits of a hash, as hexadecimal text. SQL knows
// it as case_uid. Its parts are text, numbers and nil.
func newUID(parts ...any) (string, error) {
	text, err := json.Marshal(parts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), err
}

// newSweepUID names a sweep by its plan and, if it is live, by the time at which it was planned. So
// the same simulated sweep has the same uid everywhere. A plan that the store has already gets
// another uid, which depends on the first one.
func newSweepUID(ctx context.Context, tx *sql.Tx, w results.Sweep) (uid string, err error) {
	created, err := instant{&w.CreatedAt}.Value()
	if err != nil {
		return "", err
	}
	uid, err = newUID("sweep", w.Name, w.Tag, w.Spec, w.Node, w.Mode, w.Seed, created)
	for taken := true; err == nil; {
		if err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sweep WHERE uid = ?)", uid).Scan(&taken); err != nil || !taken {
			break
		}
		uid, err = newUID("again", uid)
	}
	return uid, err
}

// SweepUID is the name of a sweep that holds in every store. The error wraps ErrNoSweep if the store lacks it.
func (s *Store) SweepUID(ctx context.Context, id int64) (uid string, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT uid FROM sweep WHERE id = ?", id).Scan(&uid)
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNoSweep
	}
	return uid, explain(s.path, fmt.Sprintf("read sweep %d", id), err)
}

// newRunUID names a run that begins outside of sweeps. A simulated run is named by its number in the
// store and its inputs, so that the same commands make the same store.
func newRunUID(id int64, run results.Run) (string, error) {
	p := run.Provenance
	parts := []any{"run", id, run.Mix, run.MixSource, run.Scheduler, run.Parameters, run.Probe, run.Node, run.Mode,
		run.Repetition, run.Seed, p.Configuration, p.Version, p.Revision}
	if run.Mode == results.Live {
		parts = append(parts, begun(run)...)
	}
	return newUID(parts...)
}

// newAttemptUID names a run that begins for a cell: by the sweep, the cell's position, the number of
// runs of the cell before it, and how often the job was restarted that makes it. Attempts on several
// machines begin from one copy of a plan, so it also says where and when the run began. A simulated
// run that ends complete takes the name of its cell instead (see finish), because it is then a
// function of the plan.
func newAttemptUID(ctx context.Context, tx *sql.Tx, cell results.Cell, restart int, run results.Run) (string, error) {
	var sweep string
	var before int
	err := tx.QueryRowContext(ctx, `SELECT uid, (SELECT count(*) FROM run WHERE sweep_id = sweep.id AND cell_position = ?)
		FROM sweep WHERE id = ?`, cell.Position, cell.Sweep).Scan(&sweep, &before)
	if err != nil {
		return "", err
	}
	return newUID(append([]any{"attempt", sweep, cell.Position, before, restart}, begun(run)...)...)
}

// begun says where and when a run begins. A simulated run's rows hold no time of day.
func begun(run results.Run) []any {
	parts := []any{run.Provenance.Host, run.Provenance.PID}
	if run.Mode == results.Live {
		parts = append(parts, time.Now().UTC().Format(time.RFC3339Nano))
	}
	return parts
}
