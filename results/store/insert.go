package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// inserter writes rows through the driver's own statements. database/sql would make a copy of each
// argument and of their list, which are half of the garbage of a large run.
type inserter struct {
	conn       driver.ConnPrepareContext
	statements map[string]*insertion // by their text
}

// insertion is a prepared statement and the memory of its arguments.
type insertion struct {
	statement interface {
		driver.Stmt
		driver.StmtExecContext
	}
	arguments []driver.NamedValue
}

// newInserter takes the driver's connection as sql.Conn.Raw hands it out.
func newInserter(conn any) (*inserter, error) {
	c, ok := conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, fmt.Errorf("the driver's %T prepares no statements", conn)
	}
	return &inserter{c, map[string]*insertion{}}, nil
}

func (in *inserter) close() (err error) {
	for _, s := range in.statements {
		err = errors.Join(err, s.statement.Close())
	}
	return err
}

// write writes a row.
func (in *inserter) write(e entry) error {
	if e.again {
		if written, err := in.execute(updates[e.table], e); written || err != nil {
			return err
		}
	}
	_, err := in.execute(upserts[e.table], e)
	return err
}

// execute runs a statement with the fields of a row, and reports whether it wrote a row.
func (in *inserter) execute(query string, e entry) (written bool, err error) {
	i, err := in.insertion(query)
	if err != nil {
		return false, err
	}
	i.arguments = i.arguments[:0]
	keys, values := e.fields()
	for _, fields := range [][]any{{&e.writer.run}, keys, values} {
		for _, f := range fields {
			v, err := argument(f)
			if err != nil {
				return false, fmt.Errorf("%s row: %w", e.table, err)
			}
			i.arguments = append(i.arguments, driver.NamedValue{Ordinal: len(i.arguments) + 1, Value: v})
		}
	}
	result, err := i.statement.ExecContext(context.Background(), i.arguments)
	if err != nil {
		return false, fmt.Errorf("%s row: %w", e.table, err)
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

func (in *inserter) insertion(query string) (*insertion, error) {
	if i := in.statements[query]; i != nil {
		return i, nil
	}
	statement, err := in.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	i := &insertion{}
	var ok bool
	if i.statement, ok = statement.(interface {
		driver.Stmt
		driver.StmtExecContext
	}); !ok {
		return nil, errors.Join(fmt.Errorf("the driver's %T takes no context", statement), statement.Close())
	}
	in.statements[query] = i
	return i, nil
}

// argument is what a field of a record points to, as database/sql would pass it on. The frequent types
// go without reflection.
func argument(field any) (driver.Value, error) {
	switch f := field.(type) {
	case *int:
		return int64(*f), nil
	case *int64:
		return *f, nil
	case *float64:
		return *f, nil
	case *string:
		return *f, nil
	case **int:
		if *f == nil {
			return nil, nil
		}
		return int64(**f), nil
	case **int64:
		if *f == nil {
			return nil, nil
		}
		return **f, nil
	case **float64:
		if *f == nil {
			return nil, nil
		}
		return **f, nil
	case **string:
		if *f == nil {
			return nil, nil
		}
		return **f, nil
	}
	return driver.DefaultParameterConverter.ConvertValue(field)
}
