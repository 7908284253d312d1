package external

import (
	"os"
	"strings"
	"testing"
)

func TestThePageShowsTheExample(t *testing.T) {
	program, err := os.ReadFile("../../benchmarks/policies/alg3.py")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/guide/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```python\n"+string(program)+"```\n") {
		t.Error("docs/guide/policies.md does not have benchmarks/policies/alg3.py as it is")
	}
}
