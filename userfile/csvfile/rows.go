package csvfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rows reads columns of a CSV file by their names, which its first line has. It may have others. Each row is valid until the
// next; an error of take ends the reading and is returned as it is.
func Rows(file string, r io.Reader, columns []string, take func(line int, fields []string) error) error {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s:1: an empty file: want a header with %s", file, strings.Join(columns, ", "))
	}
	if err != nil {
		return unread(file, err)
	}
	header[0] = strings.TrimPrefix(header[0], "\ufeff") // spreadsheets begin UTF-8 with it
	places := make([]int, len(columns))
	for i, name := range columns {
		if places[i] = slices.Index(header, name); places[i] < 0 {
			return fmt.Errorf("%s:1: no column %q: the file has %s", file, name, strings.Join(header, ", "))
		}
	}
	fields := make([]string, len(columns))
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unread(file, err)
		}
		for i, place := range places {
			fields[i] = row[place]
		}
		line, _ := in.FieldPos(0)
		if err := take(line, fields); err != nil {
			return err
		}
	}
}

// unread is the error of a file that is not CSV, or cannot be read.
func unread(file string, err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: not CSV: %w", file, syntax.Line, syntax.Err)
	}
	return fmt.Errorf("read %s: %w", file, err)
}
