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
	statements map[string]*insertion // by table
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
	i, err := in.insertion(e.table)
	if err != nil {
		return err
	}
	i.arguments = i.arguments[:0]
	keys, values := e.fields()
	for _, fields := range [][]any{{&e.writer.run}, keys, values} {
		for _, f := range fields {
			v, err := argument(f)
			if err != nil {
				return fmt.Errorf("%s row: %w", e.table, err)
			}
			i.arguments = append(i.arguments, driver.NamedValue{Ordinal: len(i.arguments) + 1, Value: v})
		}
	}
	if _, err := i.statement.ExecContext(context.Background(), i.arguments); err != nil {
		return fmt.Errorf("%s row: %w", e.table, err)
	}
	return nil
}

func (in *inserter) insertion(table string) (*insertion, error) {
	if i := in.statements[table]; i != nil {
		return i, nil
	}
	statement, err := in.conn.PrepareContext(context.Background(), upserts[table])
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
	in.statements[table] = i
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
