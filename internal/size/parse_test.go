package size

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caserun/caserun/internal/chance"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1": 1, "8590458888": 8590458888, "1KiB": 1024, "512MiB": 512 << 20,
		"16GiB": 16 << 30, "1.5GiB": 3 << 29, "0.5KiB": 512, "2TiB": 2 << 40,
		"1.2GiB": 1288490189, "0.3KiB": 308, "0.0KiB": 0,
		"9223372036854775807": 1<<63 - 1,
	} {
		if got, err := Parse(in); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "write plain bytes", "16GB": "KiB, MiB, GiB or TiB", "16G": "write plain bytes",
		"16 GiB": "write plain bytes", "-1": "write plain bytes", "+1": "write plain bytes",
		"GiB": "write plain bytes", "1e9": "write plain bytes", "0x10": "write plain bytes",
		".5GiB": "write plain bytes", "5.GiB": "write plain bytes", "16gib": "write plain bytes",
		"016GiB": "write plain bytes", "00": "write plain bytes", "1_0": "write plain bytes", " 1": "write plain bytes",
		"1.5": "not a whole number", "9223372036854775808": "at most 8388607TiB",
		"8388608TiB": "at most 8388607TiB", strings.Repeat("9", 40): "write plain bytes",
	} {
		if got, err := Parse(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %d, %v; want an error with %q", in, got, err, want)
		}
	}
}

// A small number without a unit is a forgotten unit.
func TestSizesHaveUnits(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1048576": 1 << 20, "17179869184": 16 << 30, "5MiB": 5 << 20, "0.5KiB": 512, "1KiB": 1024} {
		if got, err := ParseChosen(in); err != nil || got != want {
			t.Errorf("ParseChosen(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"1": "1 is 1 byte: write 1MiB or 1GiB", "5": "5 is 5 bytes: write 5MiB or 5GiB", "16384": "16384 is 16 KiB: write 16384MiB or 16384GiB",
		"1048575": "write 1048575MiB", "": "write plain bytes", "5GB": "write plain bytes",
	} {
		if got, err := ParseChosen(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseChosen(%q) = %d, %v; want an error with %q", in, got, err, want)
		}
	}
	type options struct{ Amount Amount }
	for text, bytes := range map[string]int64{`{"Amount":"8192MiB"}`: 8 << 30, `{"Amount":"0"}`: 0, `{"Amount":""}`: 0} { // it stays as it is written
		var o options
		err := json.Unmarshal([]byte(text), &o)
		if back, failed := json.Marshal(o); err != nil || failed != nil || o.Amount.Bytes != bytes || string(back) != text {
			t.Errorf("%s: %d bytes, written as %s (%v, %v)", text, o.Amount.Bytes, back, err, failed)
		}
	}
	chance.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Range(0, 2<<20), rapid.Int64Min(0)).Draw(t, "n")
		if back, err := ParseChosen(FormatChosen(n)); err != nil || back != n {
			t.Fatalf("%d is %q, which is %d, %v", n, FormatChosen(n), back, err)
		}
	})
}

func TestFormatBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 512 << 20: "512MiB", 16 << 30: "16GiB", 8590458888: "8590458888", 13575168000: "13257000KiB",
	} {
		if got := Format(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
	chance.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(0).Draw(t, "n")
		if back, err := Parse(Format(n)); err != nil || back != n {
			t.Fatalf("%d is %q, which is %d, %v", n, Format(n), back, err)
		}
	})
}
