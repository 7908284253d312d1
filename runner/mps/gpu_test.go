package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// TestGPU runs NVIDIA's own daemon and server. It skips only if they are not installed; with
// CASERUN_REQUIRE_GPU=1 it fails instead.
func TestGPU(t *testing.T) {
	d, err := Start(background, Config{ActiveThreadPercentage: 50})
	if errors.Is(err, errNotInstalled) && os.Getenv("CASERUN_REQUIRE_GPU") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Quit(expired()) }()
	if out := steer(t, d, "get_default_active_thread_percentage"); out != "50.0\n" {
		t.Errorf("active thread percentage %q, want 50.0", out)
	}
	if _, err := d.command(background, "get_client_list 1"); err != nil {
		t.Error(err)
	}
	if _, err := d.pids(background, "get_client_list 1"); !errors.Is(err, errNoServer) {
		t.Errorf("clients of no server: %v, want errNoServer", err)
	}

	steer(t, d, fmt.Sprintf("start_server -uid %d", os.Getuid()))
	var servers []int
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	ctx, cancel := context.WithTimeout(background, 30*time.Second)
	defer cancel()
	for len(servers) == 0 {
		if servers, err = d.listServers(ctx); err != nil {
			t.Fatal(err, d.logTail())
		}
		<-poll.C
	}
	if err := d.health(background); err != nil {
		t.Error(err)
	}
	if c, err := d.listClients(background); err != nil || len(c) != 0 {
		t.Errorf("clients %v, %v; want none", c, err)
	}
	if err := d.terminate(background, client{servers[0], 99999999}); err == nil {
		t.Error("terminating a process that does not exist succeeded")
	} else {
		t.Log(err)
	}
	if err := d.Quit(background); err != nil {
		t.Error(err)
	}
	mustBeGone(t, d, servers...)
}
