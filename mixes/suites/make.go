package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/output"
)

// Make makes the file in a directory, unless it is there. A file of the user's own is kept.
func (f File) Make(ctx context.Context, dir string, progress func(done, total int), say func(format string, args ...any)) error {
	path := filepath.Join(dir, f.Path)
	write := func(w io.Writer) error { return f.Write(w, progress) }
	if err := output.MakeDirectory(filepath.Dir(path)); err != nil {
		return err
	}
	if !userfile.Absent(path) {
		same, err := isInput(path, write)
		if err != nil {
			return err
		}
		if !same {
			say("keeping %s, which is not what caserun data makes with this --seed: remove it to have that", path)
		} else {
			say("keeping %s", path)
		}
		return nil
	}
	if err := output.Write(ctx, path, output.Policy{}, write); err != nil {
		return err
	}
	say("made %s", path)
	return nil
}

// isInput reports whether a file has what write writes. It refuses what is not an input file at all.
func isInput(path string, write func(io.Writer) error) (bool, error) {
	const remedy = "remove it, so that caserun data makes the file, or name another directory with --data"
	f, err := userfile.Open(path, 0)
	if err != nil {
		return false, refuseInput("input file: %w: %s", err, remedy)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if info.Size() == 0 { // or a device
		return false, refuseInput("input file %s is empty: %s", path, remedy)
	}
	compared := &likeness{f: f}
	err = write(compared)
	if errors.Is(err, errCompared) {
		return compared.same, nil
	}
	return compared.same && compared.bytes == info.Size(), err
}

// likeness compares what is written to it with the begin of a file.
type likeness struct {
	f     *os.File
	bytes int64
	same  bool
}

// errCompared ends a comparison.
var errCompared = errors.New("enough was compared")

func (c *likeness) Write(b []byte) (int, error) {
	const most = 8 << 20 // more than the files have, except the graph
	have := make([]byte, len(b))
	n, err := c.f.ReadAt(have, c.bytes)
	c.same = n == len(b) && bytes.Equal(have, b)
	c.bytes += int64(n)
	if !c.same && !errors.Is(err, io.EOF) && err != nil {
		return 0, err
	}
	if !c.same || c.bytes > most {
		return 0, errCompared
	}
	return len(b), nil
}

func refuseInput(format string, args ...any) error { return &MixError{fmt.Errorf(format, args...)} }
