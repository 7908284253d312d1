package mixes

import (
	"bytes"
	"errors"
	"io"

	"github.com/caserun/caserun/internal/size"
)

const (
	// pieceBytes is how much YAML is parsed at once: its tokens and nodes take 50 times as much.
	pieceBytes = 256 << 10
	// maxPieceBytes bounds one job, and a file whose jobs are not on lines of their own.
	maxPieceBytes = 4 << 20
)

// pieces divides a mix in YAML at its jobs. Each piece is a document of its own. The pieces after the
// first begin with a line "jobs:", under which their jobs stand as in the file. A small file is one piece.
type pieces struct {
	lines *lines
	size  int // a piece ends before the first job after so many bytes

	text     []byte
	jobsLine int // the line "jobs:" of the file; 0: it has not come
	dash     int // columns before the dash of each job; -1: not known
	listed   bool
	next     []byte // begins the next piece; nil: the file has no more
	done     bool
}

func newPieces(l *lines) *pieces { return &pieces{lines: l, size: pieceBytes, dash: -1} }

// piece is a part of a file.
type piece struct {
	text     []byte
	skipped  int // lines of the file before its first line
	jobsLine int // of the file, which the first line of a later piece stands for; 0: it is the first piece
}

// read returns the next piece, which is valid until the next call, and whether it is there.
func (p *pieces) read() (out piece, more bool, err error) {
	if p.done {
		return out, false, nil
	}
	p.text = p.text[:0]
	if p.next != nil {
		out.jobsLine, out.skipped = p.jobsLine, p.lines.number-2
		p.text = append(append(p.text, "jobs:\n"...), p.next...)
	}
	for some := p.next != nil; ; { // jobs in this piece
		line, err := p.lines.next()
		if errors.Is(err, io.EOF) {
			p.done = true
			out.text = p.text
			return out, true, nil
		}
		if err != nil {
			return out, false, err
		}
		if p.beginsJob(line) {
			if some && len(p.text) >= p.size {
				p.next = append(p.next[:0], line...)
				out.text = p.text
				return out, true, nil
			}
			some = true
		}
		if p.text = append(p.text, line...); len(p.text) > maxPieceBytes {
			return out, false, InputErrors{{File: p.lines.file, Line: p.lines.number, Msg: "more than " + size.Format(maxPieceBytes) + " before a line that begins a job",
				Remedy: "begin each job on a line of its own: - job"}}
		}
	}
}

// beginsJob reports whether a line begins a job of the list under the key jobs. Deeper lines belong to a
// job. The list ends at the next key.
func (p *pieces) beginsJob(line []byte) bool {
	text := bytes.TrimLeft(line, " ")
	indent := len(line) - len(text)
	text = bytes.TrimRight(text, " \t\r\n")
	comment := len(text) == 0 || text[0] == '#'
	dashed := len(text) > 0 && text[0] == '-' && (len(text) == 1 || text[1] == ' ')
	switch key, rest, _ := bytes.Cut(text, []byte(":")); {
	case p.jobsLine == 0:
		if rest = bytes.TrimLeft(rest, " "); indent == 0 && string(key) == "jobs" && (len(rest) == 0 || rest[0] == '#') {
			p.jobsLine, p.listed = p.lines.number, true
		}
		return false
	case !p.listed || comment:
		return false
	case p.dash < 0 && dashed:
		p.dash = indent
	case p.dash < 0 || indent == 0 && (!dashed || p.dash != 0):
		p.listed = false
	}
	return p.listed && dashed && indent == p.dash
}
