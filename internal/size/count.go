package size

import (
	"fmt"
	"strings"
)

// Count is a number of things, such as 1 check, 2 checks or 3 mixes.
func Count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"), strings.HasSuffix(thing, "x"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Few joins the first texts, such as a, b, and 3 more.
func Few(texts []string, shown int, separator string) string {
	more := len(texts) - shown
	if more <= 0 {
		return strings.Join(texts, separator)
	}
	if shown == 1 {
		return fmt.Sprintf("%s and %d more", texts[0], more)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:shown], separator), separator, more)
}
