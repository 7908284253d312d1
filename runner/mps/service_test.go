package mps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each instance of MIG has a daemon of its own, and a process becomes a client of that of its instance.
func TestServiceOfInstances(t *testing.T) {
	install(t, "")
	s, err := startService(background, noDaemon(t), Config{Devices: []string{"MIG-a"}}, Config{Devices: []string{"MIG-b"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Quit(expired()) })
	for device, uuid := range []string{"MIG-a", "MIG-b"} {
		d := s.of(device)
		if !strings.Contains(steer(t, d, "fake_env"), "CUDA_VISIBLE_DEVICES="+uuid+"\n") {
			t.Errorf("the daemon of device %d does not serve %s", device, uuid)
		}
		if env := s.Env(device); env[0] != "CUDA_MPS_PIPE_DIRECTORY="+s.Pipes()[device] {
			t.Errorf("device %d: %v, and pipes %v", device, env, s.Pipes())
		}
	}
	if s.Pipes()[0] == s.Pipes()[1] || len(s.Done()) != 2 {
		t.Errorf("pipes %v, %d daemons", s.Pipes(), len(s.Done()))
	}
	steer(t, s.of(1), "fake_connect 4001")
	if err := s.TerminateClients(background, 4001); err != nil {
		t.Error(err)
	}
	if left, err := s.of(1).listClients(background); err != nil || len(left) != 0 {
		t.Errorf("clients that are left: %v, %v", left, err)
	}
	if err := s.Quit(background); err != nil {
		t.Error(err)
	}
	for _, d := range s.daemons {
		mustBeGone(t, d)
	}
}

func TestServiceOfWholeDevices(t *testing.T) {
	install(t, "")
	s, err := startService(background, noDaemon(t), Config{Devices: []string{"GPU-a", "GPU-b"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Env(0), s.Env(1)); diff != "" || s.Pipes() != nil || len(s.Done()) != 1 {
		t.Errorf("two devices, pipes %v, %d daemons\n%s", s.Pipes(), len(s.Done()), diff)
	}
	if err := s.Quit(background); err != nil {
		t.Error(err)
	}
}

// If a daemon does not start, those before it end.
func TestServiceThatDoesNotStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	install(t, "")
	s, err := startService(background, noDaemon(t), Config{Devices: []string{"MIG-a"}}, Config{Devices: []string{"MIG-b"}, ActiveThreadPercentage: 101})
	if err == nil || !strings.Contains(err.Error(), "active thread percentage is 101") {
		t.Fatalf("%v, %v", s, err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "caserun-mps*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
