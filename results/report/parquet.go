package report

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/caserun/caserun/results/store"
)

// ExportParquet is ExportCSV with NAME.parquet: the same columns in the same order, as INT64,
// DOUBLE, BOOLEAN, TIMESTAMP in microseconds of UTC, and UTF-8 text. Numbers are exact and NULL is null.
func ExportParquet(ctx context.Context, s *store.Store, dir string, o ExportOptions) ([]string, error) {
	return exportTables(ctx, s, dir, ".parquet", o, newParquetRows)
}

// rowsInMemory is the most rows of a row group, which is kept in memory until it is complete.
const rowsInMemory = 1 << 17

// parquetRows writes rows in groups. Texts have dictionaries, because most repeat.
type parquetRows struct {
	w       *parquet.GenericWriter[any]
	columns []store.Column
	values  parquet.Row
}

func newParquetRows(w io.Writer, header []store.Column) (rowWriter, error) {
	fields := make([]reflect.StructField, len(header))
	for i, c := range header {
		kinds := map[string]reflect.Type{"INTEGER": reflect.TypeFor[*int64](), "REAL": reflect.TypeFor[*float64](), "TEXT": reflect.TypeFor[*string]()}
		tag := c.Name + ",optional,zstd"
		switch {
		case c.Bool:
			kinds["INTEGER"] = reflect.TypeFor[*bool]()
		case c.Time:
			kinds["TEXT"] = reflect.TypeFor[*int64]()
			tag += ",timestamp(microsecond:utc)"
		case c.Type == "TEXT":
			tag += ",dict"
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("C%d", i), Type: kinds[c.Type], Tag: reflect.StructTag(fmt.Sprintf("parquet:%q", tag))}
		if fields[i].Type == nil {
			return nil, fmt.Errorf("column %s has the type %q", c.Name, c.Type)
		}
	}
	// A struct, because parquet.Group sorts its columns by name.
	schema := parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface())
	return &parquetRows{w: parquet.NewGenericWriter[any](w, schema, parquet.MaxRowsPerRowGroup(rowsInMemory)), columns: header}, nil
}

func (p *parquetRows) row(cells []any) error {
	p.values = p.values[:0]
	for i, v := range cells {
		value, err := parquetValue(p.columns[i], v)
		if err != nil {
			return err
		}
		known := 1
		if v == nil {
			known = 0
		}
		p.values = append(p.values, value.Level(0, known, i))
	}
	_, err := p.w.WriteRows([]parquet.Row{p.values})
	return err
}

// parquetValue is a cell as its column has it. A value of another type would damage the file.
func parquetValue(c store.Column, v any) (parquet.Value, error) {
	switch v := v.(type) {
	case nil:
		return parquet.Value{}, nil
	case int64:
		if c.Bool {
			return parquet.BooleanValue(v != 0), nil
		}
		if c.Type == "INTEGER" {
			return parquet.Int64Value(v), nil
		}
	case float64:
		if c.Type == "REAL" {
			return parquet.DoubleValue(v), nil
		}
	case string:
		if c.Time {
			at, err := time.Parse(time.RFC3339Nano, v)
			if err != nil {
				return parquet.Value{}, fmt.Errorf("column %s: %w", c.Name, err)
			}
			return parquet.Int64Value(at.UnixMicro()), nil
		}
		if c.Type == "TEXT" {
			return parquet.ByteArrayValue([]byte(strings.ToValidUTF8(v, "\uFFFD"))), nil
		}
	}
	return parquet.Value{}, fmt.Errorf("column %s of type %s has a %T", c.Name, c.Type, v)
}

func (p *parquetRows) flush() error { return p.w.Close() }
