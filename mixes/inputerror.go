package mixes

import (
	"fmt"
	"strings"
)

// maxShownErrors is the number of errors that one bad file prints. Further errors are counted.
const maxShownErrors = 20

// maxErrors is the number of errors after which a large file is not read on.
const maxErrors = 1000

// InputError is one error in a mix file.
type InputError struct {
	File string
	// Line and Column count from 1; 0 means the whole file or line.
	Line, Column int
	Msg          string
	// Remedy says what to write instead; "" if Msg is enough.
	Remedy string

	program string // of the line, if it is unknown; "": another error
}

func (e *InputError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	b.WriteString(": " + e.Msg)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// InputErrors are all errors of one file, in the order of its lines. errors.As finds the first
// *InputError.
type InputErrors []*InputError

func (es InputErrors) Error() string {
	lines := make([]string, 0, min(len(es), maxShownErrors)+1)
	for i, e := range es {
		if i == maxShownErrors {
			lines = append(lines, fmt.Sprintf("%s: %d more errors", e.File, len(es)-i))
			break
		}
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n")
}

func (es InputErrors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// asError returns nil if there are no errors, so that callers may compare with nil.
func (es InputErrors) asError() error {
	if len(es) == 0 {
		return nil
	}
	return es
}
