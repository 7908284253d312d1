package pages

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// page is a document and its tables.
type page struct {
	path   string // from the root of the repository, which all paths here are from
	tables []table
}

// table stands in its page between the comments <!-- begin NAME --> and <!-- end NAME -->, each on a line
// of its own. A file that is generated as a whole has one table, of the name whole.
type table struct {
	name     string
	generate func() string
}

const whole = ""

var fourPage = evaluationPage("four")

// texts are the page as it is, and with its tables generated.
func (p page) texts() (shown, generated string, err error) {
	data, err := os.ReadFile(p.path)
	if err != nil {
		return "", "", err
	}
	shown, generated = string(data), string(data)
	for _, t := range p.tables {
		before, _, after, err := t.cut(generated)
		if err != nil {
			return "", "", err
		}
		text, err := made(t.generate)
		if err != nil {
			return "", "", fmt.Errorf("table %s: %w", t.name, err)
		}
		generated = before + text + after
	}
	return shown, generated, nil
}

// cut divides a page into the table and what stands before and after it.
func (t table) cut(page string) (before, shown, after string, err error) {
	if t.name == whole {
		return "", page, "", nil
	}
	begin, end := "<!-- begin "+t.name+" -->\n", "<!-- end "+t.name+" -->\n"
	before, rest, found := strings.Cut(page, begin)
	shown, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", "", "", fmt.Errorf("no place for the table %s", t.name)
	}
	return before + begin, shown, end + after, nil
}

// markdown is a table in Markdown. The first row is its head.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
	return b.String()
}

// errorOf is what is simulated against what was measured or published, in percent of the latter.
func errorOf(simulated, measured float64) string {
	return fmt.Sprintf("%+.0f", 100*(simulated/measured-1))
}

// ctx is that of all simulations.
var ctx = context.Background()

// failure is an error on its way from a generator to made.
type failure struct{ error }

// made is what a function returns, or the error that must or fail met in it.
func made[T any](f func() T) (out T, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.error
		}
	}()
	return f(), nil
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(failure{err})
	}
	return v
}

func fail(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}
