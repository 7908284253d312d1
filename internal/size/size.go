// Package size reads amounts of memory as users write them, and writes them, and numbers of things, as people read them.
package size

import (
	"fmt"
	"math"
	"strconv"
)

type number interface{ int | int64 | uint64 }

// Text is an amount in its largest unit, such as 1.5 GiB, with up to three decimals.
func Text[N number](bytes N) string {
	v, unit := float64(bytes), ""
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if math.Abs(v) < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	if unit == "" {
		return plain(bytes)
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) + " " + unit
}

// Apart are the texts of two amounts that are compared. They differ if the amounts do.
func Apart[N number](a, b N) (string, string) {
	first, second := Text(a), Text(b)
	if a != b && first == second {
		return plain(a), plain(b)
	}
	return first, second
}

func plain[N number](bytes N) string {
	if bytes == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", bytes)
}
