package mixes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesAreThoseOfTheFile(t *testing.T) {
	long := strings.Repeat("é", maxLineBytes/2-1)
	text := "\xef\xbb\xbffirst\r\n\n" + long + "\nlast"
	for name, r := range map[string]io.Reader{"at once": strings.NewReader(text), "in small reads": iotest.HalfReader(strings.NewReader(text))} {
		l := newLines("f", r)
		for i, want := range []string{"first\r\n", "\n", long + "\n", "last"} {
			if got, err := l.next(); err != nil || string(got) != want || l.number != i+1 {
				t.Errorf("%s: line %d: %d bytes, %v; want %d", name, l.number, len(got), err, len(want))
			}
		}
		if _, err := l.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: behind the last line: %v", name, err)
		}
	}
}

// endless is a file that never ends and has no line breaks.
type endless struct {
	of   byte
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.of
	}
	e.read += len(p)
	return len(p), nil
}

func TestWhatIsNotAMixIsNotReadOn(t *testing.T) {
	for of, want := range map[byte]string{
		0:    "f:1:1: control character U+0000; remove it",
		'x':  "f:1: a line of more than 1MiB; write each job on a line of its own",
		0xc3: "f:1:1: not UTF-8; save the file as UTF-8",
	} {
		e := &endless{of: of}
		if _, err := newLines("f", e).next(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
		if e.read > 2*maxLineBytes {
			t.Errorf("%d bytes of a file of 0x%x were read", e.read, of)
		}
	}
}

// A byte order mark is named where it is not the begin of a file, because nobody sees it.
func TestByteOrderMarks(t *testing.T) {
	const bom = "\ufeff"
	for text, want := range map[string]string{
		bom + "a\n":             "",
		bom + bom + "a\n":       "f:1:1: a byte order mark (U+FEFF), which only the begin of a file can have; remove it",
		"a\nb" + bom + "\n":     "f:2:2: a byte order mark (U+FEFF), which only the begin of a file can have; remove it",
		"\xff\xfea\x00\n\x00":   "f:1: UTF-16, by its byte order mark; save the file as UTF-8",
		"\xfe\xff\x00a\x00\n":   "f:1: UTF-16, by its byte order mark; save the file as UTF-8",
		bom + "\xff\xfea\x00\n": "f:1: UTF-16, by its byte order mark; save the file as UTF-8",
		"a\n\xff\xfe\n":         "f:2:1: not UTF-8; save the file as UTF-8",
	} {
		l := newLines("f", strings.NewReader(text))
		var err error
		for err == nil {
			_, err = l.next()
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("")
		}
		if err.Error() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAFileHasALimit(t *testing.T) {
	for kind, parse := range map[string]func(*lines, jobIndex, func(string) bool) (Mix, error){"needle 16 10\n": parseWL, "  - needle-16384\n": parseYAML} {
		l := newLines("f", strings.NewReader("jobs:\n"+strings.Repeat(kind, 10)))
		l.limits.bytes = 40
		_, err := parse(l, builtin().jobs, nil)
		if want := fmt.Sprintf("f:%d: more than 40 in the file; divide it into several mixes", 2+(40-6)/len(kind)); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// After so many errors a large file is not read on.
func TestErrorsOfALargeFileAreBounded(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"f.wl":   strings.Repeat("needle $1\n", 100*maxErrors),
		"f.yaml": "jobs:\n" + strings.Repeat("  - no-such-job\n", 100*maxErrors),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, nil)
		var all InputErrors
		if !errors.As(err, &all) || len(all) < maxErrors || len(all) > 20*maxErrors {
			t.Errorf("%s: %d errors", name, len(all))
		}
	}
}
