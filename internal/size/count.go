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
