package cudaelf

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fat is assembly of a fat binary. Each entry has a kind, an architecture and bytes of code.
func fat(entries ...[3]int) string {
	size, text := 0, ""
	for _, e := range entries {
		size += 64 + e[2]
		text += fmt.Sprintf(`.short %d, 0x101; .long 64; .quad %d; .long 0, 0, 0, %d; .zero 32; .fill %d, 1, 0x50;`, e[0], e[2], e[1], e[2])
	}
	return fmt.Sprintf(`.balign 8; .long 0xba55ed50; .short 1, 16; .quad %d;`, size) + text
}

// inSection is a program with these lines of assembly as its device code.
func inSection(lines ...string) string {
	return fmt.Sprintf(`__asm__(".section .nv_fatbin, \"a\", @progbits;%s .text;");`, strings.Join(lines, "")) + emptyMain
}

func TestDeviceCode(t *testing.T) {
	w := newWorkshop(t)
	for _, c := range []struct {
		name, source string
		want         []Code
		err          string
	}{
		{"none", emptyMain, nil, ""},
		{"one", inSection(fat([3]int{2, 70, 8})), []Code{{70, false}}, ""},
		{"both", inSection(fat([3]int{2, 90, 24}, [3]int{1, 90, 13})), []Code{{90, false}, {90, true}}, ""},
		// The linker puts the fat binaries of several objects one after the other.
		{"several", inSection(fat([3]int{2, 70, 5}), fat(), fat([3]int{2, 80, 8}), ".balign 64;", fat([3]int{1, 100, 0}), ".zero 20;"),
			[]Code{{70, false}, {80, false}, {100, true}}, ""},
		{"another-kind", inSection(fat([3]int{4, 90, 8}, [3]int{2, 90, 8})), []Code{{90, false}}, ""},
		{"no-magic", inSection(`.ascii \"sixteen bytes...\";`), nil, "no fat binary at byte 0"},
		{"too-long", inSection(`.long 0xba55ed50; .short 1, 16; .quad 0x7ffffffffffffff8;`), nil, "no fat binary at byte 0"},
		{"entry-too-long", inSection(`.long 0xba55ed50; .short 1, 16; .quad 32; .short 2, 0; .long 64; .quad -64; .long 0, 0, 0, 70;`),
			nil, "no entry of a fat binary at byte 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := w.build(c.name, c.source)
			got, err := DeviceCode(path)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
	script := w.path("script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, err := DeviceCode(script); code != nil || err != nil {
		t.Errorf("script: %v, %v", code, err)
	}
	if _, err := DeviceCode(w.path("missing")); err == nil {
		t.Error("a missing file has no error")
	}
}

func TestCodeRuns(t *testing.T) {
	for _, c := range []struct {
		code   Code
		device int
		want   bool
	}{
		{Code{80, false}, 80, true},
		{Code{80, false}, 86, true},
		{Code{86, false}, 80, false},
		{Code{80, false}, 90, false},
		{Code{90, false}, 100, false},
		{Code{70, true}, 90, true},
		{Code{90, true}, 100, true},
		{Code{90, true}, 80, false},
	} {
		if got := c.code.Runs(c.device); got != c.want {
			t.Errorf("%+v runs on %d: %t", c.code, c.device, got)
		}
	}
}

// What nvcc makes is read as it is, if there is an nvcc.
func TestDeviceCodeOfNVCC(t *testing.T) {
	nvcc, err := exec.LookPath("nvcc")
	if err != nil {
		t.Log("no nvcc: only made-up programs are read")
		return
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "p.cu"), filepath.Join(dir, "p")
	if err := os.WriteFile(source, []byte("__global__ void k() {} int main() { k<<<1, 1>>>(); return 0; }"), 0o600); err != nil {
		t.Fatal(err)
	}
	// CUDA 11.8 to 13.0 know of these architectures.
	text, err := exec.Command(nvcc, "-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90,code=[sm_90,compute_90]", "-o", program, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	code, err := DeviceCode(program)
	if err != nil {
		t.Fatal(err)
	}
	got := map[Code]bool{}
	for _, c := range code {
		got[c] = true
	}
	if diff := cmp.Diff(map[Code]bool{{80, false}: true, {90, false}: true, {90, true}: true}, got); diff != "" {
		t.Error(diff)
	}
}
