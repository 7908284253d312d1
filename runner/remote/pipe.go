package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// longestLine is more than any record takes.
const longestLine = 16 << 20

// Reader reads what the other side says.
type Reader[T any] struct {
	lines *bufio.Reader
	n     int
}

// NewReader returns a reader of r.
func NewReader[T any](r io.Reader) *Reader[T] {
	return &Reader[T]{lines: bufio.NewReaderSize(r, 1<<16)}
}

// Next is what the next line says; io.EOF: there is none.
func (r *Reader[T]) Next() (said T, err error) {
	var line []byte
	for more := true; more; {
		part, err := r.lines.ReadSlice('\n')
		if line = append(line, part...); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return said, io.EOF // a line that was cut off says nothing
		}
		if more = err != nil; more && len(line) > longestLine {
			return said, fmt.Errorf("line %d has more than %d bytes", r.n+1, longestLine)
		}
	}
	r.n++
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&said); err != nil {
		return said, fmt.Errorf("line %d: %w: %.80q", r.n, err, bytes.TrimSpace(line))
	}
	return said, nil
}

// Writer writes lines for the other side, which may be slow to read them. Say does not wait for it.
type Writer struct {
	to io.WriteCloser

	mu      sync.Mutex
	changed *sync.Cond
	lines   [][]byte
	closed  bool
	over    chan struct{} // nothing is written any more
}

// NewWriter returns a writer to w, which it closes.
func NewWriter(w io.WriteCloser) *Writer {
	out := &Writer{to: w, over: make(chan struct{})}
	out.changed = sync.NewCond(&out.mu)
	go out.write()
	return out
}

// Say writes what is said as one line.
func (w *Writer) Say(what any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(fmt.Errorf("say %T: %w", what, err)) // a record has only what JSON has
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, append(line, '\n'))
	w.changed.Signal()
}

// Close ends the writer once all was written, or cannot be.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Signal()
}

// Done is closed when nothing is written any more.
func (w *Writer) Done() <-chan struct{} { return w.over }

func (w *Writer) write() {
	defer close(w.over)
	defer w.to.Close()
	for {
		w.mu.Lock()
		for len(w.lines) == 0 && !w.closed {
			w.changed.Wait()
		}
		lines := w.lines
		w.lines = nil
		w.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		if _, err := w.to.Write(bytes.Join(lines, nil)); err != nil {
			return // the other side is gone, which its reader sees
		}
	}
}
