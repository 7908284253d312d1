package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
	"github.com/caserun/caserun/results/store"
)

// onSlowed runs a mix on the fakes, with MPS and the program of --slow. settings are of its driver.
func onSlowed(t *testing.T, settings, sched string, args ...string) (status int, text, log string) {
	t.Helper()
	library, ballast := fakeNVML(t), nativetest.Build(t, "ballast", "slow", "build/libcuda.so.1")
	dir := fakeNode(t, "exit 0", "")
	log = filepath.Join(dir, "log")
	writeFiles(t, map[string]string{
		"bin/nvidia-cuda-mps-control": "#!/bin/sh\n" + untilQuit,
		"native/ballast/slow":         "#!/bin/sh\nLD_LIBRARY_PATH=" + ballast + "/build FAKE_CUDA_LOG=" + log + " " + settings + " exec " + ballast + "/slow \"$@\"\n",
	})
	env := []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")}
	status, text = finish(t, onFakes(dir, library, env, append([]string{"mix", "own.yaml", "--sched", sched}, args...)...))
	return status, text, log
}

func TestSlow(t *testing.T) {
	for _, sched := range []string{"zero", "sa"} { // one has no MPS otherwise
		status, text, log := onSlowed(t, "", sched, "--devices", "2,3", "--slow", "1=0.25")
		if want := "GPU 3 (Fake GPU) computes with 33 of its 132 SMs (--slow)"; status != exitOK || !strings.Contains(text, want) {
			t.Fatalf("%s: exit %d, want %q:\n%s", sched, status, want, text)
		}
		run, _, _ := stored(t, 1)
		if !strings.Contains(run.Provenance.Configuration, `"slow":"1=0.25"`) {
			t.Errorf("%s: recorded as %s", sched, run.Provenance.Configuration)
		}
		s, err := store.OpenReadOnly("caserun.db")
		if err != nil {
			t.Fatal(err)
		}
		devices, err := s.Devices(t.Context(), 1)
		if err != nil || devices[0].SMs != 132 || devices[1].SMs != 33 || devices[0].CapacityBytes-devices[1].CapacityBytes != devices[1].ContextBytes {
			t.Errorf("%s: devices %+v (%v)", sched, devices, err)
		}
		s.Close()
		if said, err := os.ReadFile(log); string(said) != "hold 99\nprobe 528\ntold 99\n" {
			t.Errorf("%s: %q (%v)", sched, said, err)
		}
	}
}

func TestSlowErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--devices 2,3 --slow 2=0.5":          "--slow 2=0.5: device 2: the run has devices 0 to 1",
		"--devices 2,3 --slow 1=0.5 --no-mps": "--slow 1=0.5: it requires MPS",
		"--slow 1=0.5 --sm-cap 9":             "it cannot be combined with --sm-cap",
		"--slow 1=0.5 --node sim:2xH200":      "--slow 1=0.5: only for GPUs: sim:2xH200 may have devices of several models, such as sim:1xH200+1xL4",
	} {
		status, text, _ := onSlowed(t, "", "zero", strings.Fields(args)...)
		if status != exitUsage || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d, want %q:\n%s", args, status, want, text)
		}
	}
	status, text, _ := onSlowed(t, "FAKE_CUDA_FREE_SMS=60", "zero", "--devices", "2,3", "--slow", "1=0.25")
	if want := "--slow on GPU 3: hold 99 of the 132 SMs of GPU-30000000-"; status != exitInfrastructure || !strings.Contains(text, want) || !strings.Contains(text, "other processes get 60 SMs, and 33 were to be left") {
		t.Errorf("exit %d, want %q:\n%s", status, want, text)
	}
}
