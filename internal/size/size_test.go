package size

import (
	"math"
	"testing"
)

func TestText(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", -5: "-5 bytes", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 303 << 20: "303 MiB",
		1<<20 - 1: "1023.999 KiB", 5 << 30: "5 GiB", 16914055168: "15.752 GiB", 1 << 40: "1 TiB", math.MaxInt64: "8 EiB", -3 << 30: "-3 GiB",
	} {
		if got := Text(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
	if got := Text(uint64(math.MaxUint64)); got != "16 EiB" {
		t.Error(got)
	}
}

// A message that one amount is more than another shows two amounts.
func TestApart(t *testing.T) {
	for _, c := range []struct {
		a, b        int64
		first, last string
	}{
		{5 << 30, 4 << 30, "5 GiB", "4 GiB"},
		{16<<30 + 1, 16 << 30, "17179869185 bytes", "17179869184 bytes"},
		{7, 7, "7 bytes", "7 bytes"},
		{1 << 30, 1 << 30, "1 GiB", "1 GiB"},
	} {
		if first, last := Apart(c.a, c.b); first != c.first || last != c.last {
			t.Errorf("%d and %d: %s and %s", c.a, c.b, first, last)
		}
	}
}
