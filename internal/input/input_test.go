package input

import (
	"slices"
	"testing"
	"time"
)

// A number has one spelling. What other programs read in another way, or Go in some places only, is refused.
func TestNumbersArePlainDecimal(t *testing.T) {
	for _, text := range []string{"", " ", "010", "00", "+1", "-01", "--1", "-", "-0", "1e3", "0x10", "0b1", "0o7", "1_000", " 1", "1 ", "1\n", "١", "１"} {
		if n, err := Int(text); err == nil {
			t.Errorf("Int(%q) = %d", text, n)
		}
		if n, err := Int64(text); err == nil {
			t.Errorf("Int64(%q) = %d", text, n)
		}
		if n, err := Uint(text, 64); err == nil {
			t.Errorf("Uint(%q) = %d", text, n)
		}
		if n, err := Float(text); err == nil {
			t.Errorf("Float(%q) = %g", text, n)
		}
		if d, err := Duration(text + "s"); err == nil {
			t.Errorf("Duration(%q) = %v", text+"s", d)
		}
	}
	for _, text := range []string{"inf", "Inf", "NaN", "nan", "infinity", "0x1p-2", "1_0.5", "05.5", "1.", ".", ".5", "-.5", "+.5", "+0.5", "1e", "e5", "1e-3", "1E3", "1.5e2", "-0.0", "1.5.5", "1,5", "0.5 ", "0.5f"} {
		if n, err := Float(text); err == nil {
			t.Errorf("Float(%q) = %g", text, n)
		}
	}
	for text, want := range map[string]float64{"0": 0, "10": 10, "-3": -3, "0.50": 0.5, "-0.5": -0.5, "12.25": 12.25} {
		if n, err := Float(text); err != nil || n != want {
			t.Errorf("Float(%q) = %g, %v", text, n, err)
		}
	}
	for text, want := range map[string]float64{"0.50": 0.5, ".05": 0.05, "1e-3": 0.001, "1.5E+2": 150} {
		if n, err := Measured(text); err != nil || n != want {
			t.Errorf("Measured(%q) = %g, %v", text, n, err)
		}
	}
	for _, text := range []string{"NaN", "Inf", "0x1p-2", "1_0", "05", "+1", "1.", ".", "1e", "e5"} {
		if n, err := Measured(text); err == nil {
			t.Errorf("Measured(%q) = %g", text, n)
		}
	}
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "90s": 90 * time.Second, "1h05m": 65 * time.Minute, "-1s": -time.Second, "1.5s": 1500 * time.Millisecond,
		"1h2m3s4ms5us6ns": time.Hour + 2*time.Minute + 3*time.Second + 4*time.Millisecond + 5*time.Microsecond + 6, "5µs": 5 * time.Microsecond} {
		if d, err := Duration(text); err != nil || d != want {
			t.Errorf("Duration(%q) = %v, %v", text, d, err)
		}
	}
	for _, text := range []string{"", "-", "5", "s", ".5s", "1.s", "1h1h", "5s1h", "1m.5s", "1h5.s", "1e3s", "1_0s", "1h 5m", "1d", "1S", "01s", "+1s", "0x1s", "--1s", "1h-5m", "NaNs"} {
		if d, err := Duration(text); err == nil {
			t.Errorf("Duration(%q) = %v", text, d)
		}
	}
	if n, err := Uint("18446744073709551615", 64); err != nil || n != 1<<64-1 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := Uint("-1", 64); err == nil {
		t.Error("-1 is not negative")
	}
}

// Names that look the same are the same, and a name has nothing that cannot be seen.
func TestNames(t *testing.T) {
	if Name("nu\u0308t") != Name("n\u00fct") {
		t.Error("two spellings of ü differ")
	}
	for _, text := range []string{"", " ", " a", "a ", "a\x00", "a\nb", "a\tb", "a\x7f", "a\u0085", "a\u200b", "a\u202eb", "a\u00a0b", "\xff"} {
		if IsName(text) {
			t.Errorf("%q is a name", text)
		}
	}
	for _, text := range []string{"a", "nightly 2026-11-21", "n\u00fct", "夜"} {
		if !IsName(text) {
			t.Errorf("%q is not a name", text)
		}
	}
}

// An empty item is never "all": it may be an unset variable.
func TestListsHaveNoEmptyItem(t *testing.T) {
	if items, err := List("a, b,c "); err != nil || !slices.Equal(items, []string{"a", "b", "c"}) {
		t.Errorf("%q, %v", items, err)
	}
	for _, text := range []string{"", " ", ",", "a,", ",a", "a,,b", "a, ,b", "a,\t"} {
		if items, err := List(text); err == nil {
			t.Errorf("List(%q) = %q, %v", text, items, err)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"W1,it": "W1,it", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'", "": "''", "fifo:=sa:queue=fifo": "fifo:=sa:queue=fifo", "#1": "'#1'", "ü": "ü",
	} {
		if got := ShellWord(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
