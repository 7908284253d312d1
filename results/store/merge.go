package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/userfile"
)

// Merged says what the store of a merge has.
type Merged struct {
	Sweep      results.Sweep // as the store has it
	Cells      int           // of its plan
	Done       int           // cells that have a complete run
	Runs       int           // of the sweep, warm-ups and duplicates included
	Duplicates int           // complete runs of cells of which another run counts
	Notes      []string      // on names of arms, of the whole store
}

// ErrOtherPlan is wrapped if a part of a merge was not planned together with the others.
var ErrOtherPlan = errors.New("it is not a part of the same plan")

// ErrDiffer is wrapped if parts of a merge have different complete runs of one uid.
var ErrDiffer = errors.New("complete runs of one uid differ")

// Merging says how stores are merged. The zero value is what most merges need.
type Merging struct {
	// Sweep is the uid of the sweep to merge; "": the latest of the first part.
	Sweep string
	// Add lets out be a store without the sweep, which then gets it as a further sweep.
	Add bool
	// Open opens a part for reading; nil: OpenUpdated. done is called when the part was read.
	Open func(ctx context.Context, path string) (s *Store, done func() error, err error)
	// Progress takes how many parts were read; nil: not needed.
	Progress func(read int)
}

func (m Merging) open(ctx context.Context, path string) (*Store, func() error, error) {
	if m.Open != nil {
		return m.Open(ctx, path)
	}
	s, err := OpenUpdated(path)
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// Merge brings the runs of a sweep together that were made in several stores. The store at out gets
// the sweep's runs of all parts; it is made if it is missing, and must have the sweep if it is not,
// unless Merging.Add. Its other runs stay as they are.
//
// The result depends only on what out and the parts have, and not on their order or on how often they
// are merged: the runs of the sweep are numbered after all others, by their cells. A run that several
// stores have is there once. Of several complete runs of a cell the first counts, and the others are
// marked as duplicates. A run that is under way is left out.
//
// The store is written beside out and renamed at the end. So out has all or nothing whatever happens,
// and no program may have it open meanwhile. The memory that Merge takes does not depend on the number
// of parts and runs.
func Merge(ctx context.Context, out string, parts []string, how Merging) (_ Merged, err error) {
	if out, err = filepath.Abs(out); err != nil {
		return Merged{}, fmt.Errorf("merge: %w", err)
	}
	if target, err := filepath.EvalSymlinks(out); err == nil {
		out = target // and keep the link
	} else if err := userfile.CheckLink(out); err != nil {
		return Merged{}, fmt.Errorf("merge into %s: %w", out, err)
	}
	w, err := openWorkplace("merge into "+out, out)
	if err != nil {
		return Merged{}, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	work, merged := w.file(workFile), w.file(mergedFile)
	if err := w.make(mergedFile); err != nil {
		return Merged{}, err
	}
	m := merger{Merging: how, out: out, isNew: !exists(out), sweep: how.Sweep, notes: map[string]bool{}}
	if !m.isNew {
		h, err := holdStore(ctx, "merge", out, nil)
		if err != nil {
			return Merged{}, err
		}
		defer func() { err = errors.Join(err, h.release()) }()
	}
	if err := m.checkLeftovers(); err != nil {
		return Merged{}, err
	}
	reach(mergeBegun)
	if err := m.into(ctx, work, func() error { return m.gather(ctx, parts) }); err != nil {
		return Merged{}, err
	}
	reach(mergeGathered)
	if err := m.into(ctx, merged, func() error { return m.settle(ctx, work) }); err != nil {
		return Merged{}, err
	}
	reach(mergeSettled)
	if err := m.checkLeftovers(); err != nil {
		return Merged{}, err
	}
	err = w.replace(!m.isNew)
	reach(mergeRenamed)
	return m.made, err
}

// checkLeftovers refuses journals of a store that is not there: SQLite would bring what they have into the merged store.
func (m *merger) checkLeftovers() error {
	if !m.isNew {
		return nil
	}
	for _, suffix := range journals {
		if _, err := os.Lstat(m.out + suffix); err == nil {
			return fmt.Errorf("merge into %s: %s is left of a store that is not there, and SQLite would take it for a journal of the merged store: remove it, or merge into another file",
				m.out, m.out+suffix)
		}
	}
	return nil
}

// merger makes two stores. gather brings the runs of all stores into the first one, as it comes to
// them. settle decides which runs count and copies them in order into the second one. So the bytes of
// the second one do not depend on the order in which the runs came.
type merger struct {
	Merging
	out   string
	isNew bool      // out does not exist
	conn  *sql.Conn // of the store that is being made
	sweep string    // uid
	first string    // the part of which the sweep is the latest
	id    int64     // number of the sweep in the result
	notes map[string]bool
	last  int64 // the largest number of a run in the first store
	used  []largest
	from  []origin
	made  Merged
}

// largest is the largest number that out has ever given to a row of a table.
type largest struct {
	table string
	id    int64
}

// origin is a store with the number before its first run in the first store.
type origin struct {
	path  string
	after int64
}

// into makes a store and calls fill with a connection to it. A store that fails is thrown away, so
// nothing is done to keep it whole meanwhile.
func (m *merger) into(ctx context.Context, path string, fill func() error) (err error) {
	s, err := Open(path)
	if err != nil {
		return fmt.Errorf("merge into %s: %w", m.out, err)
	}
	defer func() {
		if closed := s.Close(); err == nil {
			err = closed
		}
	}()
	if m.conn, err = s.write.Conn(ctx); err != nil {
		return m.failed(err)
	}
	defer m.conn.Close()
	err = execute(ctx, m.conn, "PRAGMA foreign_keys = OFF", "PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF",
		createChosen, "CREATE TEMP TABLE hit (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)", timeless)
	if err != nil {
		return m.failed(err)
	}
	return fill()
}

// failed explains an error in the store that is made.
func (m *merger) failed(err error) error { return m.failedAt(m.out, err) }

// failedAt explains an error at the file at path, unless it says all. Space can lack for the result
// only.
func (m *merger) failedAt(path string, err error) error {
	switch {
	case errors.Is(err, ErrOtherPlan), errors.Is(err, ErrDiffer), errors.Is(err, ErrBusy):
		return err
	case isFull(err):
		path = m.out
	}
	return explain(path, "merge", err)
}

// attached calls do in a transaction, with the store at file as the schema source.
func (m *merger) attached(ctx context.Context, file string, do func() error) (err error) {
	if err := execute(ctx, m.conn, attach(file), "BEGIN"); err != nil {
		return err
	}
	if err := do(); err != nil {
		_, _ = m.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK") // which frees the source; what was made is thrown away
		return err
	}
	return execute(ctx, m.conn, "DELETE FROM chosen", "DELETE FROM hit", "COMMIT", "DETACH source")
}

// gather brings the runs together.
func (m *merger) gather(ctx context.Context, parts []string) error {
	m.first = parts[0]
	if m.sweep == "" {
		if err := m.find(ctx, m.first); err != nil {
			return err
		}
	}
	if !m.isNew {
		if err := m.attached(ctx, m.out, func() error { return m.begin(ctx) }); err != nil {
			return m.failed(err)
		}
	}
	for i, path := range parts {
		if err := m.part(ctx, path); err != nil {
			return err
		}
		reach(partMerged)
		if m.Progress != nil {
			m.Progress(i + 1)
		}
	}
	return m.failed(m.decide(ctx))
}

// find settles which sweep is merged.
func (m *merger) find(ctx context.Context, path string) (err error) {
	s, done, err := m.open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	w, err := s.LatestSweep(ctx)
	if err != nil {
		return err
	}
	return explain(path, "read the sweep", s.read.QueryRowContext(ctx, "SELECT uid FROM sweep WHERE id = ?", w.ID).Scan(&m.sweep))
}

// begin copies all that out has.
func (m *merger) begin(ctx context.Context) error {
	var w results.Sweep
	err := m.conn.QueryRowContext(ctx, "SELECT id, status, ifnull(host, ''), pid, ifnull(note, '') FROM source.sweep WHERE uid = ?", m.sweep).
		Scan(&w.ID, &w.Status, &w.Host, &w.PID, &w.Note)
	switch {
	case errors.Is(err, sql.ErrNoRows) && m.Add: // plan numbers it
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("store %s has no sweep of the parts' plan: merge into a new file, or into the store that planned the sweep, or add the sweep to this store (--add): %w", m.out, ErrOtherPlan)
	case err != nil:
		return err
	case w.Status == results.Running:
		return fmt.Errorf("merge into %s: %w", m.out, HeldError{Sweep: w.ID, Host: w.Host, PID: *w.PID})
	}
	m.id = w.ID
	m.note(w.Note)
	for _, table := range []string{runs.table, sweeps.table} {
		var n int64
		if err := m.conn.QueryRowContext(ctx, "SELECT ifnull(max(seq), 0) FROM source.sqlite_sequence WHERE name = ?", table).Scan(&n); err != nil {
			return err
		}
		m.used = append(m.used, largest{table, n})
	}
	if err := verify(ctx, m.conn, "source", "true", nil); err != nil {
		return err
	}
	if err := execute(ctx, m.conn, "INSERT INTO chosen SELECT id, id FROM source.run"); err != nil {
		return err
	}
	if err := copyChosen(ctx, m.conn); err != nil {
		return err
	}
	for _, table := range []string{sweeps.table, cells.table} {
		if err := copyRows(ctx, m.conn, table, "true"); err != nil {
			return err
		}
	}
	m.from = append(m.from, origin{m.out, 0})
	return m.conn.QueryRowContext(ctx, "SELECT ifnull(max(id), 0) FROM main.run").Scan(&m.last)
}

// note keeps the notes of a sweep. What is missing in a copy says nothing of the merge.
func (m *merger) note(text string) {
	for _, n := range strings.Split(text, "; ") {
		if n != "" && !strings.Contains(n, leftOut) {
			m.notes[n] = true
		}
	}
}

// part takes the runs of one part.
func (m *merger) part(ctx context.Context, path string) (err error) {
	if same(path, m.out) {
		return nil
	}
	s, done, err := m.open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	err = m.attached(ctx, s.file(), func() error {
		id, err := m.plan(ctx, path)
		if err != nil {
			return err
		}
		return m.take(ctx, path, id)
	})
	return m.failedAt(path, err)
}

// same reports whether two names are of one file.
func same(a, b string) bool {
	of, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(of, other)
}

// plan finds the sweep in a part. The first part gives the plan, and a part that was extended gives
// more of it. Cells are a function of what the sweep was planned from.
func (m *merger) plan(ctx context.Context, path string) (id int64, err error) {
	var reps int
	var spec, note string
	err = m.conn.QueryRowContext(ctx, "SELECT id, repetitions, spec, ifnull(note, '') FROM source.sweep WHERE uid = ?", m.sweep).Scan(&id, &reps, &spec, &note)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("part %s: %w as the latest sweep of %s: leave it out, or make all parts from one plan (caserun sweep --plan-only)", path, ErrOtherPlan, m.first)
	}
	if err != nil {
		return 0, err
	}
	m.note(note)
	columns, err := columnsOf(ctx, m.conn, cells.table)
	if err != nil {
		return 0, err
	}
	columns = slices.DeleteFunc(columns, func(c string) bool { return c == "sweep_id" || c == "run_id" })
	list := strings.Join(columns, ", ")
	if m.id == 0 {
		if m.id, err = m.addSweep(ctx, id); err != nil {
			return 0, err
		}
	} else {
		if _, err := m.conn.ExecContext(ctx, `UPDATE main.sweep SET remark = nullif(max(ifnull(sweep.remark, ''), ifnull(s.remark, '')), '')
			FROM source.sweep s WHERE s.id = ? AND sweep.id = ?`, id, m.id); err != nil {
			return 0, err
		}
		var had int
		var same bool
		if err := m.conn.QueryRowContext(ctx, "SELECT repetitions, spec = ? FROM main.sweep WHERE id = ?", spec, m.id).Scan(&had, &same); err != nil {
			return 0, err
		}
		switch {
		case reps < had || reps == had && same:
			return id, m.sameCells(ctx, path, id, list)
		case reps == had:
			return 0, fmt.Errorf("part %s: sweep %d was planned from something else: %w: leave it out", path, id, ErrOtherPlan)
		}
		if _, err := m.conn.ExecContext(ctx, "UPDATE main.sweep SET repetitions = ?, spec = ? WHERE id = ?", reps, spec, m.id); err != nil {
			return 0, err
		}
	}
	_, err = m.conn.ExecContext(ctx, fmt.Sprintf("INSERT OR IGNORE INTO main.cell (sweep_id, %s) SELECT ?, %[1]s FROM source.cell WHERE sweep_id = ?", list), m.id, id)
	if err != nil {
		return id, err
	}
	return id, m.sameCells(ctx, path, id, list)
}

// sameCells refuses a part whose cells are not cells of the sweep, whose columns are listed.
func (m *merger) sameCells(ctx context.Context, path string, id int64, columns string) error {
	var others int
	err := m.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM (SELECT %s FROM source.cell WHERE sweep_id = ? EXCEPT SELECT %[1]s FROM main.cell WHERE sweep_id = ?)",
		columns), id, m.id).Scan(&others)
	if err == nil && others > 0 {
		err = fmt.Errorf("part %s: %d cells of sweep %d are not in the plan of the other parts: %w: leave it out", path, others, id, ErrOtherPlan)
	}
	return err
}

// addSweep copies the row of a sweep of a part, and returns the number that follows on all that out has given to sweeps.
func (m *merger) addSweep(ctx context.Context, id int64) (int64, error) {
	number := int64(1)
	for _, u := range m.used {
		if u.table == sweeps.table {
			number += u.id
		}
	}
	columns, err := columnsOf(ctx, m.conn, sweeps.table)
	if err != nil {
		return 0, err
	}
	list := strings.Join(slices.DeleteFunc(columns, func(c string) bool { return c == "id" }), ", ")
	_, err = m.conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.sweep (id, %s) SELECT ?, %[1]s FROM source.sweep WHERE id = ?", list), number, id)
	return number, err
}

// take takes the runs that have ended of a sweep of a part.
func (m *merger) take(ctx context.Context, path string, id int64) error {
	const ended = "r.sweep_id = ? AND r.status <> 'running'"
	var stray int64
	err := m.conn.QueryRowContext(ctx, `SELECT ifnull(min(id), 0) FROM source.run r WHERE `+ended+` AND NOT EXISTS (SELECT 1 FROM main.cell
		WHERE cell.sweep_id = ? AND cell.position = r.cell_position AND cell.seed = r.seed)`, id, m.id).Scan(&stray)
	if err != nil {
		return err
	}
	if stray != 0 {
		return fmt.Errorf("part %s: run %d has no cell in the plan: %w: leave it out", path, stray, ErrOtherPlan)
	}
	if err := verify(ctx, m.conn, "source", "sweep_id = ?", []any{id}); err != nil {
		return err
	}
	if _, err := m.conn.ExecContext(ctx, "INSERT INTO hit SELECT r.id, m.id FROM source.run r JOIN main.run m ON m.uid = r.uid WHERE "+ended, id); err != nil {
		return err
	}
	if err := m.again(ctx, path); err != nil {
		return err
	}
	m.from = append(m.from, origin{path, m.last})
	took, err := m.conn.ExecContext(ctx, `INSERT INTO chosen SELECT ? + row_number() OVER (ORDER BY id), id FROM source.run r
		WHERE `+ended+` AND NOT EXISTS (SELECT 1 FROM main.run WHERE run.uid = r.uid)`, m.last, id)
	if err != nil {
		return err
	}
	n, err := took.RowsAffected()
	if err != nil {
		return err
	}
	m.last += n
	if err := copyChosen(ctx, m.conn); err != nil {
		return err
	}
	_, err = m.conn.ExecContext(ctx, "UPDATE main.run SET sweep_id = ? WHERE id IN (SELECT new FROM chosen)", m.id)
	return err
}

// machine are the columns of a run that say where it ran. They may differ in a simulated run that two
// machines made: then the first ones count, as text.
// The checksum covers them too, so it is taken with them.
const machine = "host, kernel, cpu, cores, memory_bytes, version, revision, binaries, checksum"

// chosenByUser are columns of a run that a user may change in one of several copies.
var chosenByUser = []string{"excluded", "remark"}

// again takes runs that the merge has from an earlier part. They must be the same. An interrupted run
// may have gone on, or have been closed by several: the run that is complete counts, or else the one
// whose rows have the smaller hash.
func (m *merger) again(ctx context.Context, path string) error {
	if _, err := m.conn.ExecContext(ctx, `UPDATE main.run AS m SET (`+machine+`) = (SELECT `+machine+` FROM source.run WHERE id = hit.old)
		FROM hit JOIN source.run s ON s.id = hit.old
		WHERE m.id = hit.new AND m.mode = 'sim' AND m.status = 'complete' AND s.status = 'complete'
			AND (s.`+strings.ReplaceAll(machine, ", ", ", s.")+`) < (m.`+strings.ReplaceAll(machine, ", ", ", m.")+`)`); err != nil {
		return err
	}
	// A run is excluded if any copy says so, and of several remarks the last one of the alphabet stays.
	if _, err := m.conn.ExecContext(ctx, `UPDATE main.run AS m SET excluded = max(m.excluded, s.excluded), remark = nullif(max(ifnull(m.remark, ''), ifnull(s.remark, '')), '')
		FROM hit JOIN source.run s ON s.id = hit.old WHERE m.id = hit.new`); err != nil {
		return err
	}
	different, err := m.different(ctx)
	if err != nil {
		return err
	}
	for _, d := range different {
		if d.oldDone && d.newDone {
			return fmt.Errorf("%s and %s: run %d of the second one is %s in both, and its rows differ: %w: leave one of the files out",
				m.origin(d.new), path, d.old, d.uid, ErrDiffer)
		}
		replace := d.oldDone
		if d.oldDone == d.newDone {
			if replace, err = m.smaller(ctx, d.old, d.new); err != nil {
				return err
			}
		}
		if replace {
			if err := m.drop(ctx, d.new); err != nil {
				return err
			}
		}
	}
	return nil
}

// difference is a run of a part whose rows are not those of the run with the same uid.
type difference struct {
	old, new         int64
	uid              string
	oldDone, newDone bool
}

func (m *merger) different(ctx context.Context) (out []difference, err error) {
	tables, err := runTables(ctx, m.conn)
	if err != nil {
		return nil, err
	}
	var arms []string
	for _, table := range tables {
		columns, err := m.content(ctx, table)
		if err != nil {
			return nil, err
		}
		list := strings.Join(append([]string{"hit.new"}, columns...), ", ")
		of := func(schema, side string) string {
			return fmt.Sprintf("SELECT %s FROM hit CROSS JOIN %s.%s ON %s = hit.%s", list, schema, table, runColumn(table), side)
		}
		for _, sides := range [][2]string{{of("source", "old"), of("main", "new")}, {of("main", "new"), of("source", "old")}} {
			arms = append(arms, fmt.Sprintf("SELECT new FROM (%s EXCEPT %s)", sides[0], sides[1]))
		}
	}
	rows, err := m.conn.QueryContext(ctx, `SELECT hit.old, hit.new, m.uid, s.status = 'complete', m.status = 'complete'
		FROM hit JOIN source.run s ON s.id = hit.old JOIN main.run m ON m.id = hit.new
		WHERE hit.new IN (`+strings.Join(arms, " UNION ")+") ORDER BY hit.old")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d difference
		if err := rows.Scan(&d.old, &d.new, &d.uid, &d.oldDone, &d.newDone); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// content are the columns of a table that must be equal in all copies of a run.
func (m *merger) content(ctx context.Context, table string) ([]string, error) {
	columns, err := columnsOf(ctx, m.conn, table)
	return slices.DeleteFunc(columns, func(c string) bool {
		return c == runColumn(table) || table == runs.table && (c == "sweep_id" || c == "duplicate" || slices.Contains(chosenByUser, c) || slices.Contains(strings.Split(machine, ", "), c))
	}), err
}

// origin is the file that a run of the first store came from.
func (m *merger) origin(run int64) string {
	i, _ := slices.BinarySearchFunc(m.from, run, func(o origin, run int64) int {
		if o.after < run {
			return -1
		}
		return 1
	})
	return m.from[i-1].path
}

// smaller reports whether the rows of a run of the part have the smaller hash.
func (m *merger) smaller(ctx context.Context, old, new int64) (bool, error) {
	a, err := m.hash(ctx, "source", old)
	if err != nil {
		return false, err
	}
	b, err := m.hash(ctx, "main", new)
	return a < b, err
}

func (m *merger) hash(ctx context.Context, schema string, run int64) (string, error) {
	sum := sha256.New()
	tables, err := runTables(ctx, m.conn)
	if err != nil {
		return "", err
	}
	for _, table := range tables {
		columns, err := m.content(ctx, table)
		if err != nil {
			return "", err
		}
		for i, c := range columns {
			columns[i] = "quote(" + c + ")"
		}
		lines, err := texts(ctx, m.conn, fmt.Sprintf("SELECT concat_ws(',', %s) AS line FROM %s.%s WHERE %s = ? ORDER BY line",
			strings.Join(columns, ", "), schema, table, runColumn(table)), run)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %q\n", table, lines)
	}
	return string(sum.Sum(nil)), nil
}

// drop removes a run, so that it is taken from the part.
func (m *merger) drop(ctx context.Context, run int64) error {
	tables, err := runTables(ctx, m.conn)
	for _, table := range tables {
		if _, failed := m.conn.ExecContext(ctx, fmt.Sprintf("DELETE FROM main.%s WHERE %s = ?", table, runColumn(table)), run); err == nil {
			err = failed
		}
	}
	return err
}

// inOrder is the order of a sweep's runs in the result. Times are compared to the millisecond.
const inOrder = "ORDER BY cell_position, julianday(started_at), status = 'complete', uid"

// best are the runs that may count, one for each cell. Of several complete ones an excluded one counts last, and before
// it a doubtful one. Then that of the machine that has done most of the block counts, so that a block that was done again
// elsewhere is of one machine. Then the machine counts that was first at the block, and the first run there. A simulated run is of no machine.
const best = `WITH made AS (
	SELECT run.id, run.cell_position, run.status = 'complete' AS done, run.doubts <> '' AS doubtful, run.excluded, cell.mix, cell.warmup, cell.repetition,
		row_number() OVER (` + inOrder + `) AS n,
		` + machineOf + ` AS machine
	FROM run JOIN cell ON cell.sweep_id = run.sweep_id AND cell.position = run.cell_position WHERE run.sweep_id = ?1),
blocks AS (
	SELECT mix, warmup, repetition, machine, count(DISTINCT cell_position) AS cells, min(n) AS first FROM made WHERE done GROUP BY 1, 2, 3, 4)
SELECT id, cell_position FROM (
	SELECT id, cell_position, row_number() OVER (PARTITION BY cell_position
		ORDER BY done DESC, CASE WHEN done THEN excluded END, CASE WHEN done THEN doubtful END, CASE WHEN done THEN -cells END, CASE WHEN done THEN first END, CASE WHEN done THEN n ELSE -n END) AS place
	FROM made LEFT JOIN blocks USING (mix, warmup, repetition) WHERE NOT done OR blocks.machine = made.machine)
WHERE place = 1`

// decide settles which runs count, and the sweep's row.
func (m *merger) decide(ctx context.Context) error {
	for _, statement := range []string{
		"UPDATE cell SET run_id = NULL WHERE sweep_id = ?1",
		"UPDATE cell SET run_id = best.id FROM (" + best + ") AS best WHERE cell.sweep_id = ?1 AND cell.position = best.cell_position",
		"UPDATE run SET duplicate = 0 WHERE sweep_id = ?1",
		`UPDATE run SET duplicate = 1 FROM cell WHERE run.sweep_id = ?1 AND run.status = 'complete'
			AND cell.sweep_id = run.sweep_id AND cell.position = run.cell_position AND cell.run_id <> run.id`,
	} {
		if _, err := m.conn.ExecContext(ctx, statement, m.id); err != nil {
			return err
		}
	}
	var begun int
	if err := m.conn.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE run.status = 'complete'), count(run.id)
		FROM cell LEFT JOIN run ON run.id = cell.run_id WHERE cell.sweep_id = ?`, m.id).Scan(&m.made.Cells, &m.made.Done, &begun); err != nil {
		return err
	}
	if err := m.conn.QueryRowContext(ctx, "SELECT count(*), ifnull(sum(duplicate), 0) FROM run WHERE sweep_id = ?", m.id).
		Scan(&m.made.Runs, &m.made.Duplicates); err != nil {
		return err
	}
	status := results.Interrupted
	switch {
	case begun == 0:
		status = results.Planned
	case m.made.Done == m.made.Cells:
		status = results.Complete
	}
	note := strings.Join(slices.Sorted(maps.Keys(m.notes)), "; ")
	if _, err := m.conn.ExecContext(ctx, "UPDATE sweep SET status = ?, host = NULL, pid = NULL, note = ? WHERE id = ?", status, text{&note}, m.id); err != nil {
		return err
	}
	w := &m.made.Sweep
	_, values := sweeps.fields(w)
	return m.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT id, %s FROM sweep WHERE id = ?", strings.Join(sweeps.columns, ", ")), m.id).
		Scan(append([]any{&w.ID}, values...)...)
}

// settle copies the first store into the second one, in order. No row changes after it was inserted,
// because its place in the file could tell of that.
func (m *merger) settle(ctx context.Context, work string) error {
	err := m.attached(ctx, work, func() error {
		for _, choose := range []string{
			"INSERT INTO chosen SELECT id, id FROM source.run WHERE sweep_id IS NOT ?1",
			"INSERT INTO chosen SELECT (SELECT ifnull(max(new), 0) FROM chosen) + row_number() OVER (" + inOrder + "), id FROM source.run WHERE sweep_id = ?1",
		} {
			if _, err := m.conn.ExecContext(ctx, choose, m.id); err != nil {
				return err
			}
		}
		if err := copyChosen(ctx, m.conn); err != nil {
			return err
		}
		if err := copyRows(ctx, m.conn, sweeps.table, "true"); err != nil {
			return err
		}
		columns, err := columnsOf(ctx, m.conn, cells.table)
		if err != nil {
			return err
		}
		list := strings.Join(columns, ", ")
		renumbered := strings.Replace(list, "run_id", "(SELECT new FROM chosen WHERE old = run_id)", 1)
		if _, err := m.conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO main.cell (%s) SELECT %s FROM source.cell ORDER BY sweep_id, position", list, renumbered)); err != nil {
			return err
		}
		for _, last := range m.used {
			if _, err := m.conn.ExecContext(ctx, "UPDATE main.sqlite_sequence SET seq = ?1 WHERE name = ?2 AND seq < ?1", last.id, last.table); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		m.made.Notes, err = notesOnNames(ctx, m.conn)
	}
	if err != nil {
		return m.failed(err)
	}
	return m.failed(check(ctx, m.conn))
}

// notesOnNames are the notes of all arms of a store.
func notesOnNames(ctx context.Context, conn *sql.Conn) ([]string, error) {
	rows, err := conn.QueryContext(ctx, "SELECT DISTINCT scheduler, parameters, ifnull(arm, '') FROM main.run")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var arms []results.Run
	for rows.Next() {
		var r results.Run
		if err := rows.Scan(&r.Scheduler, &r.Parameters, &r.Arm); err != nil {
			return nil, err
		}
		arms = append(arms, r)
	}
	return results.NamesOf(arms).Notes(), rows.Err()
}
