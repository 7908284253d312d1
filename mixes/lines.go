package mixes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/userfile"
)

const (
	// maxFileBytes bounds a mix file, and MaxJobs its jobs, so that a typing error in count, or a file
	// that is not a mix, cannot exhaust memory.
	maxFileBytes = 1 << 30
	// MaxJobs is the most jobs of a mix.
	MaxJobs = 500_000
	// maxLineBytes bounds what is read before a line's text is checked.
	maxLineBytes = 1 << 20
)

// lines reads a mix file line by line, so that a large file is never in memory as a whole.
type lines struct {
	file   string
	number int // of the latest line
	limits struct {
		bytes int64
		jobs  int
	}

	reader *bufio.Reader
	read   int64
	long   []byte // a line that is longer than the reader's buffer
}

func newLines(file string, r io.Reader) *lines {
	l := &lines{file: file, reader: bufio.NewReaderSize(r, 64<<10)}
	l.limits.bytes, l.limits.jobs = maxFileBytes, MaxJobs
	return l
}

// next returns the next line with its line break, if it has one; it is valid until the next call. The
// error is io.EOF after the last line, InputErrors if the line is not text, and else that of the file.
func (l *lines) next() ([]byte, error) {
	line, err := l.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.rest(line)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, err
	}
	l.number++
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte(userfile.ByteOrderMark))
		if userfile.IsUTF16(line) {
			return nil, InputErrors{{File: l.file, Line: 1, Msg: "UTF-16, by its byte order mark", Remedy: "save the file as UTF-8"}}
		}
	}
	if err := l.check(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
		return nil, err
	}
	if l.read += int64(len(line)); l.read > l.limits.bytes {
		return nil, InputErrors{{File: l.file, Line: l.number, Msg: "more than " + size.Format(l.limits.bytes) + " in the file", Remedy: "divide it into several mixes"}}
	}
	if len(line) > maxLineBytes {
		return nil, InputErrors{{File: l.file, Line: l.number, Msg: "a line of more than " + size.Format(maxLineBytes), Remedy: "write each job on a line of its own"}}
	}
	return line, nil
}

// rest reads on in a long line, up to where it is too long.
func (l *lines) rest(begun []byte) ([]byte, error) {
	l.long = append(l.long[:0], begun...)
	for {
		more, err := l.reader.ReadSlice('\n')
		l.long = append(l.long, more...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(l.long) > maxLineBytes {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return l.long, err
		}
	}
}

// check finds what is not text in a line: it is not UTF-8, or has control characters. Mixes do not
// need control characters, which would garble tables.
func (l *lines) check(line []byte) error {
	column := 1
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && size == 1:
			return InputErrors{{File: l.file, Line: l.number, Column: column, Msg: "not UTF-8", Remedy: "save the file as UTF-8"}}
		case r == '\ufeff':
			return InputErrors{{File: l.file, Line: l.number, Column: column,
				Msg: "a byte order mark (U+FEFF), which only the begin of a file can have", Remedy: "remove it"}}
		case r < ' ' && r != '\t' && (r != '\r' || len(line) > 1), r == 0x7f:
			return InputErrors{{File: l.file, Line: l.number, Column: column,
				Msg: fmt.Sprintf("control character %U", r), Remedy: "remove it"}}
		}
		line = line[size:]
		column++
	}
	return nil
}

// tooManyJobs is the error of a job too many in a line.
func (l *lines) tooManyJobs(line int) *InputError {
	return &InputError{File: l.file, Line: line, Msg: fmt.Sprintf("more than %d jobs in the mix", l.limits.jobs)}
}
