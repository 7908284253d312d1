package ivmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// The example of the document compiles without a warning, and prints what the document says.
func TestTheExampleOfTheDocument(t *testing.T) {
	ivmd, _ := built(t, "")
	page, err := os.ReadFile("../../../docs/design/ivm.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile("(?s)```c\n(.*?)```").FindSubmatch(page)
	want := regexp.MustCompile("(?s)```console\n[^\n]*\n(.*?)```").FindSubmatch(page)
	if source == nil || want == nil {
		t.Fatal("no example with its output")
	}
	dir := t.TempDir()
	file, program := filepath.Join(dir, "vector.c"), filepath.Join(dir, "vector")
	if err := os.WriteFile(file, source[1], 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("cc", "-Wall", "-Wextra", "-Werror", "-I..", file, "../libivm.a", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if e := run(t, ivmd, program).must(t); e.stdout != string(want[1]) {
		t.Errorf("prints %q, the document has %q", e.stdout, want[1])
	}
}

// Each call of ivm.h is in the document's table, and the other way around.
func TestTheDocumentHasEachCall(t *testing.T) {
	header, errHeader := os.ReadFile("../ivm.h")
	page, errPage := os.ReadFile("../../../docs/design/ivm.md")
	if errHeader != nil || errPage != nil {
		t.Fatal(errHeader, errPage)
	}
	declared := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^int (ivm_\w+)\(`).FindAllStringSubmatch(string(header), -1) {
		declared[match[1]] = true
	}
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`ivm_[^|]*)\\|").FindAllStringSubmatch(string(page), -1) {
		for _, name := range regexp.MustCompile(`ivm_\w+`).FindAllString(row[1], -1) {
			listed[name] = true
		}
	}
	if fmt.Sprint(declared) != fmt.Sprint(listed) || len(declared) != 21 {
		t.Errorf("ivm.h has %d calls %v\nthe document has %d %v", len(declared), declared, len(listed), listed)
	}
}
