package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	longestName = 60 // characters of a kernel's name in a table
	leastName   = 30 // on a narrow terminal
)

// shortNames are the names of kernels as tables show them, of about longestName characters at
// most: without parameters, and without template arguments unless these tell two kernels apart.
// Different kernels have different short names.
func shortNames(names []string) map[string]string {
	same := map[string][]string{} // names by what is left of them
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		s := cutMiddle(plainName(name, false), longestName)
		same[s] = append(same[s], name)
	}
	short, times := map[string]string{}, map[string]int{}
	for _, s := range slices.Sorted(maps.Keys(same)) {
		group := same[s]
		if len(group) == 1 {
			short[group[0]] = s
			times[s]++
			continue
		}
		var whole []string
		for _, name := range group {
			whole = append(whole, plainName(name, true))
		}
		for i, s := range cutApart(whole, longestName) {
			if times[s]++; times[s] > 1 {
				s = fmt.Sprintf("%s (%d)", s, times[s])
			}
			short[group[i]] = s
		}
	}
	return short
}

// plainName is a demangled name without its return type, its parameters, and, unless arguments, its
// template arguments. A name without parameters stays as it is: it is not one of C++.
func plainName(name string, arguments bool) string {
	const anonymous = "(anonymous namespace)"
	var out strings.Builder
	for rest := name; rest != ""; {
		operator := out.String() == "operator" || strings.HasSuffix(out.String(), "::operator")
		atom := rest[:1]
		switch {
		case strings.HasPrefix(rest, anonymous):
			atom = anonymous
		case operator && strings.HasPrefix(rest, "()"):
			atom = "()"
		case operator && rest[0] == '<':
			atom = rest[:len(rest)-len(strings.TrimLeft(rest, "<="))]
		case strings.HasPrefix(rest, " ("):
			return name // such as all kernels (simulated)
		case rest[0] == ' ': // behind a return type
			out.Reset()
			rest = rest[1:]
			continue
		case rest[0] == '(':
			return out.String()
		case rest[0] == '<' || rest[0] == '{':
			end := closing(rest)
			if end < 0 {
				return name
			}
			if rest[0] == '<' && !arguments {
				rest = rest[end:]
				continue
			}
			atom = rest[:end]
		}
		out.WriteString(atom)
		rest = rest[len(atom):]
	}
	return name
}

// closing is the length of the bracketed text that s begins with, or -1 if it has no end.
func closing(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '<', '(', '{', '[':
			depth++
		case '>':
			if i > 0 && s[i-1] == '-' {
				continue // of ->
			}
			depth--
		case ')', '}', ']':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

// cutApart cuts each of several names to width characters, and keeps where they begin to differ.
func cutApart(names []string, width int) []string {
	const head = 12 // characters
	from := strings.LastIndexAny(commonPrefix(names), "_,<: ") + 1
	var out []string
	for _, name := range names {
		if from > head && utf8.RuneCountInString(name) > width {
			name = name[:head] + mark + cutMiddle(name[from:], width-head-1)
		}
		out = append(out, cutMiddle(name, width))
	}
	return out
}

func commonPrefix(names []string) string {
	prefix := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

// mark stands for what was cut out of a text.
const mark = "…"

// cutMiddle is a text of at most width characters, without its middle if it is longer.
func cutMiddle(s string, width int) string {
	runes := []rune(s)
	if len(runes) <= width {
		return s
	}
	tail := (width - 1) / 2
	return string(runes[:width-1-tail]) + mark + string(runes[len(runes)-tail:])
}
