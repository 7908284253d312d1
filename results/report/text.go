package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// TextWidth is the width of text that is not a table: what a terminal has at least.
const TextWidth = 80

// Pairs are the lines of names, in at least so many columns, and what each means.
func Pairs(rows [][2]string, column int) string {
	for _, r := range rows {
		column = max(column, utf8.RuneCountInString(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		name := r[0]
		for _, line := range breakLines(r[1], TextWidth-column-4) {
			b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s  %s", column, name, line), " ") + "\n")
			name = ""
		}
	}
	return b.String()
}

// breakLines breaks a text into lines of at most so many columns.
func breakLines(text string, columns int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		line := &lines[len(lines)-1]
		switch {
		case *line == "":
			*line = word
		case utf8.RuneCountInString(*line)+1+utf8.RuneCountInString(word) <= columns:
			*line += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}
