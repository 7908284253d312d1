package size

import "testing"

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 check": Count(1, "check"), "0 checks": Count(0, "check"), "2 checks": Count(2, "check"),
		"1 mix": Count(1, "mix"), "3 mixes": Count(3, "mix"), "2 processes": Count(2, "process"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestFew(t *testing.T) {
	for want, got := range map[string]string{
		"": Few(nil, 2, ", "), "a, b": Few([]string{"a", "b"}, 2, ", "), "a; b; and 2 more": Few([]string{"a", "b", "c", "d"}, 2, "; "), "a and 1 more": Few([]string{"a", "b"}, 1, ", "),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
