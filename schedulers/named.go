package schedulers

import "strings"

// CutName splits the text of an arm, NAME:=SCHEDULER or SCHEDULER alone, where a scheduler may have parameters. named
// reports whether there is a name, perhaps an empty one.
func CutName(text string) (name, scheduler string, named bool) {
	before, after, found := strings.Cut(text, ":=")
	if !found || strings.Contains(before, ":") { // as in the path of a program
		return "", text, false
	}
	return before, after, true
}
