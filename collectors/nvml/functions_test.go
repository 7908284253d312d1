package nvml

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/native/nativetest"
)

// A library that lacks a function is an error that names the function and its driver. The process does not end by the dynamic linker.
func TestFunctionsThatDriversLack(t *testing.T) {
	if os.Getenv("CASERUN_TEST_LACKS") != "" {
		n, err := Open(t.Context())
		if err != nil {
			fmt.Println("refused:", err)
			return
		}
		defer n.Close()
		if _, err := n.Devices(); err != nil {
			t.Error(err)
		}
		if _, err := n.Processes(0); err != nil {
			t.Error(err)
		}
		if _, err := n.Versions(t.Context()); err != nil {
			t.Error(err)
		}
		s, err := n.StartSampler(Config{Consume: func(Segment) {}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stop(time.Minute); err != nil {
			t.Error(err)
		}
		return
	}
	dir := nativetest.Build(t, "nvml")
	out := t.TempDir()
	run := func(symbols ...string) string {
		t.Helper()
		script, lib := filepath.Join(out, "script"), filepath.Join(out, "libnvidia-ml.so.1")
		text := "{ local: " + strings.Join(symbols, "; ") + "; };\n"
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cc := exec.Command("cc", "-shared", "-fPIC", "-o", lib, filepath.Join(dir, "fake_nvml.c"), "-Wl,--version-script="+script)
		if said, err := cc.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		c := exec.Command(os.Args[0], "-test.run", "^TestFunctionsThatDriversLack$")
		c.Env = append(os.Environ(), "CASERUN_TEST_LACKS=1", "LD_LIBRARY_PATH="+out, "FAKE_GPUS=2", "FAKE_METER=counter power")
		said, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("without %v: %v\n%s", symbols, err, said)
		}
		return string(said)
	}
	for _, f := range required {
		said := run(f.names...)
		for _, want := range []string{"refused: open NVML", f.names[0], "driver " + f.driver} {
			if !strings.Contains(said, want) {
				t.Errorf("without %v: %q, want %q", f.names, said, want)
			}
		}
	}
	if said := run("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues", "nvmlDeviceGetClockInfo"); strings.Contains(said, "refused") {
		t.Errorf("without functions that are not required: %s", said)
	}
}
