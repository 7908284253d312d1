package store

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"sync"
)

var creating = regexp.MustCompile(`(?m)^(?:CREATE (?:TABLE|VIEW|TRIGGER)|ALTER TABLE \w+ RENAME TO) (\w+)`)

// own are the names of the tables, views and triggers that migrations make, as a list in JSON. A user may have added
// others to a store.
var own = sync.OnceValue(func() string {
	names := []string{versionTable}
	err := fs.WalkDir(migrations(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(migrations(), path)
		for _, made := range creating.FindAllSubmatch(text, -1) {
			names = append(names, string(made[1]))
		}
		return err
	})
	if err != nil {
		panic(err) // the files are embedded
	}
	return jsonTexts(names)
})

// checkTriggers refuses triggers of a user's on the store's tables: they could change rows after their checksum is made.
func checkTriggers(ctx context.Context, path string, db *sql.DB) error {
	found, err := texts(ctx, db, `SELECT printf('DROP TRIGGER "%w";', name) FROM sqlite_schema
		WHERE type = 'trigger' AND name NOT IN (SELECT value FROM json_each(?1)) AND tbl_name COLLATE NOCASE IN (SELECT value FROM json_each(?1))
		ORDER BY name`, own())
	if err != nil {
		return explain(path, "read the schema", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("store %s: it has triggers that are not caserun's and could change what runs store: remove them with sqlite3 (%s), or name another store",
			path, strings.Join(found, " "))
	}
	return nil
}
