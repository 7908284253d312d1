package store

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/network"
)

//go:embed migrations/*.sql
var embedded embed.FS

// schema is what the migrations make of an empty file. TestSchema writes it.
//
//go:embed schema.sql
var schema string

// migrations are the numbered SQL files by name.
func migrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return sub
}

const (
	applicationID = 1128354629 // set by the first migration: "CASE"
	versionTable  = "goose_db_version"
	lockPatience  = 30 * time.Second
	readers       = 4
)

// connector opens connections and applies the same settings to each, because SQLite keeps
// foreign_keys and busy_timeout per connection.
type connector struct {
	dsn     string
	pragmas []string
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Driver().Open(c.dsn) }

func (c connector) Driver() driver.Driver {
	return &sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		for name, function := range map[string]any{"case_uid": newUID, "case_name": caseName} {
			if err := conn.RegisterFunc(name, function, true); err != nil {
				return fmt.Errorf("function %s: %w", name, err)
			}
		}
		for _, p := range c.pragmas {
			if _, err := conn.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("pragma %s: %w", p, err)
			}
		}
		return nil
	}}
}

// caseName is input.Name in SQL.
func caseName(text any) any {
	if s, ok := text.(string); ok {
		return input.Name(s)
	}
	return text
}

func connect(path, query string, connections int, pragmas ...string) *sql.DB {
	pragmas = append([]string{"foreign_keys = ON"}, pragmas...)
	query += fmt.Sprintf("&_busy_timeout=%d", lockPatience.Milliseconds()) // the driver reads the file before any pragma
	db := sql.OpenDB(connector{dsn: fileURL(path, query), pragmas: pragmas})
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db
}

func fileURL(path, query string) string {
	file := url.URL{Scheme: "file", Path: path, RawQuery: query}
	return file.String()
}

// Open opens the store at path for writing and reading. It creates a missing file and migrates
// an older schema. The caller must Close the store.
func Open(path string) (*Store, error) { return OpenTelling(path, nil) }

// OpenTelling is Open for a user who is told what is waited for, when that takes more than a second: now, and whenever the
// store is written to.
func OpenTelling(path string, tell func(what string)) (*Store, error) {
	stop := whileWaiting(path, tell)
	defer stop()
	s, err := open(path, network.Of)
	if err == nil {
		s.tell = tell
	}
	return s, err
}

// journalOn is the journal of a store on a file system, which is a network's if it has a kind. Programs that use a write-ahead
// log must be on one machine, because they share memory beside it (https://www.sqlite.org/wal.html).
func journalOn(kind string) string {
	if kind != "" {
		return "DELETE"
	}
	return "WAL"
}

// open takes more pragmas for the writing connection. Tests use them to simulate a small disk.
func open(path string, networkOf func(path string) (kind string, err error), pragmas ...string) (_ *Store, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	if err := writable(path); err != nil {
		return nil, err
	}
	target := path
	if file, err := filepath.EvalSymlinks(path); err == nil {
		target = file
	}
	if err := checkJournals(path, target); err != nil {
		return nil, err
	}
	kind, err := networkOf(filepath.Dir(target))
	if err != nil {
		return nil, fmt.Errorf("store %s: its file system: %w", path, err)
	}
	before, _ := os.Stat(path)
	// NORMAL: a killed program loses nothing that it committed. A power cut may lose the last
	// commits, but does not damage the file.
	write := connect(path, "_txlock=immediate", 1, append(pragmas, "synchronous = NORMAL")...)
	defer func() {
		if err != nil {
			err = errors.Join(err, write.Close())
		}
	}()
	ctx := context.Background()
	if err := identify(ctx, path, write); err != nil {
		return nil, err
	}
	if err := checkTriggers(ctx, path, write); err != nil {
		return nil, err
	}
	journal := setJournal(ctx, path, write, journalOn(kind))
	if now, gone := os.Stat(path); before != nil && gone == nil && !os.SameFile(before, now) {
		if err := write.Close(); err != nil { // a merge replaced the file while this call waited for it
			return nil, explain(path, "open", err)
		}
		return open(path, networkOf, pragmas...)
	}
	if journal != nil {
		return nil, journal
	}
	if err := migrate(ctx, path, write); err != nil {
		return nil, err
	}
	return newStore(path, write, connect(path, "mode=ro", readers)), nil
}

// regular reports whether path exists, and returns an error if it is not a regular file with one name. It
// must not open the file, because closing any descriptor of the file would drop the locks that
// SQLite holds in this process.
//
// Programs that use two names of a file have journals of their own beside each, and overwrite what the others wrote
// (https://www.sqlite.org/howtocorrupt.html#_multiple_links_to_the_same_file). Who only reads would miss what is in the
// journal beside the other name, which may be anywhere.
func regular(path string) (exists bool, err error) {
	if err := userfile.CheckLink(path); err != nil {
		return true, fmt.Errorf("store %s: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("store %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return true, fmt.Errorf("store %s: %w", path, userfile.NotRegular{Type: info.Mode().Type()})
	}
	if its, ok := info.Sys().(*syscall.Stat_t); ok && its.Nlink > 1 {
		return true, fmt.Errorf("store %s: the file has another name (a hard link), and runs written under one name are lost under the other: "+
			"find the names with `find DIR -samefile %[1]s`, keep the one that has a -wal beside it, or any if none has, and remove the others; or use a copy (cp, of the -wal too)", path)
	}
	return true, nil
}

// journals are what SQLite keeps beside a store, behind the store's name.
var journals = []string{"-wal", "-shm", "-journal"}

// Files are the names that the files of the store at path have or may get, that of the store first.
func Files(path string) []string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	out := []string{path}
	for _, suffix := range journals {
		out = append(out, path+suffix)
	}
	return append(out, workplaceOf(path))
}

// beginnings are the first bytes of each of them, in both byte orders (https://www.sqlite.org/fileformat2.html,
// https://www.sqlite.org/walformat.html).
var beginnings = map[string][]string{
	"-wal":     {"\x37\x7f\x06\x82", "\x37\x7f\x06\x83"},
	"-shm":     {"\x18\xe2\x2d\x00", "\x00\x2d\xe2\x18"},
	"-journal": {"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"},
}

// checkJournals refuses what SQLite would take for a journal of the store at target, and is none of its: SQLite waits
// forever for a FIFO, writes into a file that has another name too, brings into the store what another user wrote, and
// removes or overwrites what it did not write.
func checkJournals(path, target string) error {
	of, err := os.Stat(target)
	if err != nil {
		of = nil // the store is new
	}
	for _, suffix := range journals {
		info, err := os.Lstat(target + suffix)
		if err != nil {
			continue // SQLite says what is wrong, if it needs it
		}
		why := notJournal(of, info)
		if why == "" {
			why = foreignContent(target, suffix, info.Size())
		}
		if why != "" {
			return fmt.Errorf("store %s: %s %s, and SQLite would take it for the store's journal: move it away, or remove it", path, target+suffix, why)
		}
	}
	return nil
}

// foreignContent says why a regular file has not been written by SQLite; "": it can have been. A killed program and a full
// disk leave files that are empty, or have zeros in the place of their first bytes or of the last of these: SQLite writes
// a header's first bytes last. A journal that is kept for the next transaction has such zeros too.
func foreignContent(target, suffix string, size int64) string {
	if suffix == "-shm" {
		const page, begun = 4096, 3 // SQLite makes it by such pages, or of so many bytes
		if size%page != 0 && size != begun {
			return fmt.Sprintf("has %d bytes, which SQLite does not write", size)
		}
		if exists(target + "-wal") {
			// This process may have the store open. Closing the file here would then drop SQLite's locks on it. Without a
			// WAL nobody has locks on it.
			return ""
		}
	}
	f, err := os.OpenFile(target+suffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "" // it is gone, or SQLite says what is wrong
	}
	defer f.Close()
	begins := make([]byte, len(beginnings[suffix][0]))
	n, err := io.ReadFull(f, begins)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	written := strings.TrimRight(string(begins[:n]), "\x00")
	if slices.ContainsFunc(beginnings[suffix], func(b string) bool { return strings.HasPrefix(b, written) }) {
		return ""
	}
	return fmt.Sprintf("begins with %q, which SQLite does not write", written)
}

// notJournal says why a file cannot be a store's journal; "": it can. Only who may write a store has written its journal.
func notJournal(store, journal fs.FileInfo) string {
	if !journal.Mode().IsRegular() {
		return "is not a regular file"
	}
	its, ok := journal.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
	case its.Nlink > 1:
		return "is a hard link of another file"
	case store == nil || store.Mode().Perm()&0o022 != 0 || journal.Size() == 0 || its.Uid == 0:
	default:
		if owner, ok := store.Sys().(*syscall.Stat_t); ok && owner.Uid != its.Uid {
			return fmt.Sprintf("belongs to user %d, who may not write the store", its.Uid)
		}
	}
	return ""
}

// writable checks for the conditions that SQLite reports as "unable to open database file".
func writable(path string) error {
	dir := filepath.Dir(path)
	exists, err := regular(path)
	switch {
	case exists && err != nil:
		return err
	case exists:
		if err := syscall.Access(path, 2); err != nil {
			return fmt.Errorf("store %s: the file cannot be written: name another store: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("store %s: its directory: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("store %s: %s is not a directory", path, dir)
	}
	if err := syscall.Access(dir, 2); err != nil {
		return fmt.Errorf("store %s: directory %s cannot be written (SQLite keeps a journal beside the store): choose another place, as with --db: %w",
			path, dir, err)
	}
	return nil
}

// identify refuses a database that another program made. It looks for tables before it looks
// for the application id, because another process that creates the store commits both at once.
func identify(ctx context.Context, path string, db *sql.DB) error {
	var tables, id int
	err := db.QueryRowContext(ctx,
		"SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT IN (?, 'sqlite_sequence')",
		versionTable).Scan(&tables)
	if err == nil && tables > 0 {
		err = db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id)
	}
	if err != nil {
		return explain(path, "open", err)
	}
	if tables > 0 && id != applicationID {
		return fmt.Errorf("store %s: a SQLite database, but not one of caserun's: name another store", path)
	}
	return nil
}

// HeaderSize is the length of the header of a SQLite file.
const HeaderSize = 100

// CheckHeader refuses a file of so many bytes whose header is not a store's, so that nobody unpacks it
// (https://www.sqlite.org/fileformat2.html#the_database_header).
func CheckHeader(header []byte, size int64) error {
	if len(header) < HeaderSize || !bytes.HasPrefix(header, []byte("SQLite format 3\x00")) || binary.BigEndian.Uint32(header[68:]) != applicationID {
		return errors.New("it is not a store of caserun's")
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 1 << 16
	}
	if pages := int64(binary.BigEndian.Uint32(header[28:])); pages*page != size {
		return fmt.Errorf("it has %d bytes, and its header is of %d pages of %d bytes", size, pages, page)
	}
	return nil
}

// setJournal sets the journal mode, which the file keeps. SQLite returns ErrBusy at once while another
// program has the file open, so setJournal retries until lockPatience is over.
func setJournal(ctx context.Context, path string, db *sql.DB, mode string) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		_, err := db.ExecContext(ctx, "PRAGMA journal_mode = "+mode)
		if errors.Is(err, context.DeadlineExceeded) {
			return explain(path, "open", sqlite3.Error{Code: sqlite3.ErrBusy})
		}
		var s sqlite3.Error
		if !errors.As(err, &s) || s.Code != sqlite3.ErrBusy {
			return explain(path, "open", err)
		}
		select {
		case <-ctx.Done():
			return explain(path, "open", err)
		case <-pause.C:
		}
	}
}

// versions returns the schema versions of the file and of this program, and refuses a newer
// file.
func versions(ctx context.Context, path string, db *sql.DB) (have, want int64, err error) {
	files, err := fs.Glob(migrations(), "*.sql")
	if err != nil {
		return 0, 0, fmt.Errorf("list migrations: %w", err)
	}
	for _, f := range files {
		n, err := goose.NumericComponent(f)
		if err != nil {
			return 0, 0, fmt.Errorf("migration %s: %w", f, err)
		}
		want = max(want, n)
	}
	var exists bool
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = ?", versionTable).Scan(&exists)
	if err == nil && exists {
		err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&have)
	}
	if err != nil {
		return 0, 0, explain(path, "read the schema version", err)
	}
	if have > want {
		return 0, 0, fmt.Errorf("store %s: schema version %d is newer than this program's %d: use the newer caserun, or name another store",
			path, have, want)
	}
	return have, want, nil
}

// migrate brings the schema up to date. Another process may migrate at the same time, so
// migrate looks at the version again after an error.
func migrate(ctx context.Context, path string, db *sql.DB) error {
	const attempts = 5
	for attempt := 1; ; attempt++ {
		have, want, err := versions(ctx, path, db)
		if err != nil || have == want {
			return err
		}
		made, err := create(ctx, db)
		if made {
			return nil
		}
		if err == nil {
			err = upgrade(ctx, db)
		}
		if err != nil && attempt == attempts {
			return explain(path, fmt.Sprintf("migrate from schema version %d to %d", have, want), err)
		}
	}
}

func upgrade(ctx context.Context, db *sql.DB) error {
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations(),
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return err
}

// create makes the tables of a file that has none, in a tenth of the time that the migrations take.
func create(ctx context.Context, db *sql.DB) (made bool, err error) {
	tx, err := db.BeginTx(ctx, nil) // no other process makes tables now
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // no-op once committed
	var tables int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil || tables > 0 {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return false, err
	}
	err = tx.Commit()
	return err == nil, err
}
