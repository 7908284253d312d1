// Package runlog writes what happens in runs to a file as it happens, as JSON lines
// (docs/reference/exports.md).
package runlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/userfile/output"
)

// Log is a file that takes an object on each line. Its methods do not wait for the file, because
// a run must not. Lines of several runs may come at the same time.
type Log struct {
	path string
	file output.Growing

	mu     sync.Mutex
	runs   map[int64]*state
	queue  []results.Fields // of lines that are not written yet
	closed bool
	wake   chan struct{} // holds a token while there is something to do
	done   chan struct{}

	lost int   // lines, which only the writing goroutine and Close use
	err  error // the first
}

// state is what the log has said of a run.
type state struct {
	mode    results.Mode
	ended   bool
	jobs    map[int]results.Job
	tasks   map[taskKey]results.Task
	refused map[int]results.Event // the latest by job
}

type taskKey struct{ job, seq int }

// ownFile is the kind of file that a log is.
var ownFile = output.Kind{Name: "a log of caserun", Is: func(begin []byte) bool { return bytes.HasPrefix(begin, []byte(`{"run_id":`)) }}

// Open opens a file for new lines behind those that it has. waiting is called before the wait for the reader of a FIFO.
// Close must follow a success.
func Open(ctx context.Context, path string, waiting func(path string)) (*Log, error) {
	f, err := output.Grow(ctx, path, output.Policy{Own: &ownFile, Waiting: waiting})
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	if isCut(path) {
		if _, err := f.WriteString("\n"); err != nil {
			return nil, errors.Join(fmt.Errorf("log: %w", err), f.Close())
		}
	}
	l := &Log{path: path, file: f, runs: map[int64]*state{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.drain()
	return l, nil
}

// isCut reports whether a file ends within a line, as it may if the machine went down. It does not if the end cannot be read.
func isCut(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// Close writes what is left. Its error says how many lines are missing, and why.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.hurry()
	<-l.done
	err := l.file.Close()
	if l.lost > 0 {
		return fmt.Errorf("log %s: %d lines could not be written; the store has what they say, and caserun export --jsonl DIR writes it: %w", l.path, l.lost, l.err)
	}
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

func (l *Log) hurry() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// drain is the goroutine that writes.
func (l *Log) drain() {
	defer close(l.done)
	for closed := false; !closed; {
		<-l.wake
		l.mu.Lock()
		lines := l.queue
		l.queue, closed = nil, l.closed
		l.mu.Unlock()
		for _, fields := range lines {
			l.write(fields)
		}
	}
}

// write writes a line, or leaves the file with whole lines only.
func (l *Log) write(fields results.Fields) {
	line, err := json.Marshal(fields)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err == nil {
		return
	}
	l.lost++
	if l.err == nil {
		l.err = err
	}
}
