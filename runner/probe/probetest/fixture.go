package probetest

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// Hex is what a file of hex digits has, with comments from # on.
func Hex(tb testing.TB, file string) []byte {
	tb.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return b
}
