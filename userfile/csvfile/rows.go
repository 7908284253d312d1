package csvfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rows reads columns of a CSV file by their names, which its first line has. It may have others. Spaces around names and
// fields do not count. Each row is valid until the next; an error of take ends the reading and is returned as it is.
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
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	places := make([]int, len(columns))
	for i, name := range columns {
		place := slices.Index(header, name)
		if place < 0 {
			return fmt.Errorf("%s:1: no column %q: the file has %s", file, name, begin(strings.Join(header, ", ")))
		}
		if slices.Contains(header[place+1:], name) {
			return fmt.Errorf("%s:1: two columns %q: rename one", file, name)
		}
		places[i] = place
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
			fields[i] = strings.TrimSpace(row[place])
		}
		line, _ := in.FieldPos(0)
		if err := take(line, fields); err != nil {
			return err
		}
	}
}

// begin is the text, or the beginning of a long one: the first line of a file that is not CSV may be megabytes.
func begin(text string) string {
	const most = 400
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s … (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// unread is the error of a file that is not CSV, or cannot be read.
func unread(file string, err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: not CSV: %w", file, syntax.Line, syntax.Err)
	}
	return fmt.Errorf("read %s: %w", file, err)
}
