package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/collectors/nvml"
	"github.com/caserun/caserun/mixes/suites"
)

// program compiles a program whose device code has one entry (runner/cudaelf): kind 1 is PTX, 2 is
// machine code. Kind 0: the program has no device code.
func program(t *testing.T, name string, kind, architecture int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	source := "int main(void) { return 0; }"
	if kind > 0 {
		source += fmt.Sprintf(`__asm__(".section .nv_fatbin, \"a\", @progbits; .long 0xba55ed50; .short 1, 16; .quad 32;`+
			` .short %d, 0; .long 32; .quad 0; .long 0, 0, 0, %d; .text");`, kind, architecture)
	}
	if err := os.WriteFile(path+".c", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("gcc", "-o", path, path+".c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return path
}

// A suite that was built for other GPUs is found before a run.
func TestDoctorSaysWhichDeviceCodeIsMissing(t *testing.T) {
	volta, hopper := nvml.Device{ID: "3", ComputeMajor: 7}, nvml.Device{ID: "0", ComputeMajor: 9}
	second := hopper
	second.ID = "1"
	machine90, machine80, ptx70 := program(t, "needle", 2, 90), program(t, "bfs", 2, 80), program(t, "dwt2d", 1, 70)
	elsewhere := program(t, "python", 0, 0)
	builtin, own := suites.Suite{Name: suites.Builtin}, suites.Suite{Name: "mine"}
	rebuild := builtin.Rebuild(90)
	for _, c := range []struct {
		name     string
		programs []string
		devices  []nvml.Device
		suite    suites.Suite
		want     []Finding
	}{
		{"fits", []string{machine90, elsewhere}, []nvml.Device{hopper, second}, builtin,
			[]Finding{{"device code", Fine, "machine code for sm_90 (GPU 0, 1)"}}},
		{"other", []string{machine80, machine90}, []nvml.Device{hopper}, builtin,
			[]Finding{{"device code", Failed, "none for sm_90 (GPU 0): bfs has sm_80: " + rebuild}}},
		{"newer", []string{machine90}, []nvml.Device{volta, hopper}, own, []Finding{
			{"device code", Failed, "none for sm_70 (GPU 3): needle has sm_90: compile them with -arch=sm_70"},
			{"device code", Fine, "machine code for sm_90 (GPU 0)"}}},
		{"PTX", []string{ptx70}, []nvml.Device{hopper}, builtin, []Finding{
			{"device code", Warning, "no machine code for sm_90 (GPU 0), so that the driver compiles PTX when a program first starts: dwt2d: " + rebuild}}},
		{"no GPU", []string{machine80}, nil, builtin, nil},
		{"in libraries", []string{elsewhere}, []nvml.Device{hopper}, builtin, nil},
	} {
		var e examination
		e.code(c.programs, c.devices, c.suite)
		if diff := cmp.Diff(c.want, e.findings); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}
