package mps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a client does to the files of the daemon is undone, so that programs still reach it, and it ends as it should.
func TestMend(t *testing.T) {
	for name, spoil := range map[string]func(d *Daemon, control string) error{
		"removed":       func(_ *Daemon, control string) error { return os.Remove(control) },
		"replaced":      func(_ *Daemon, control string) error { return os.WriteFile(control+".x", nil, 0o600) },
		"locked":        func(_ *Daemon, control string) error { return os.Chmod(control, 0) },
		"a link":        func(_ *Daemon, control string) error { return os.Rename(control, control+".x") },
		"pipes removed": func(d *Daemon, _ string) error { return os.RemoveAll(d.pipes()) },
		"pipes locked":  func(d *Daemon, _ string) error { return os.Chmod(d.pipes(), 0) },
		"all removed":   func(d *Daemon, _ string) error { return os.RemoveAll(d.root) },
		"all moved":     func(d *Daemon, _ string) error { return os.Rename(d.root, d.root+"-away") },
		"pipes a file":  func(d *Daemon, _ string) error { return os.Rename(d.pipes(), d.root+"/x") },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			d := startFake(t, Config{}, "")
			t.Cleanup(func() { _ = os.RemoveAll(d.root + "-away") })
			steer(t, d, "fake_connect 77")
			servers, err := d.listServers(background)
			if err != nil {
				t.Fatal(err)
			}
			if mended, err := d.Mend(); mended || err != nil {
				t.Fatalf("untouched: %v, %v", mended, err)
			}
			control := filepath.Join(d.pipes(), "control")
			if err := spoil(d, control); err != nil {
				t.Fatal(err)
			}
			switch name {
			case "replaced":
				err = os.Rename(control+".x", control)
			case "a link":
				err = os.Symlink("control.x", control)
			case "pipes a file":
				err = os.WriteFile(d.pipes(), nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if mended, err := d.Mend(); !mended || err != nil {
				t.Fatalf("mended: %v, %v", mended, err)
			}
			if clients, err := d.listClients(background); err != nil || len(clients) != 1 {
				t.Errorf("clients %v, %v", clients, err)
			}
			steer(t, d, fmt.Sprintf("terminate_client %d 77", servers[0]))
			if err := os.RemoveAll(d.pipes()); err != nil { // and the end comes before anybody looks
				t.Fatal(err)
			}
			if err := d.Quit(background); err != nil {
				t.Error(err)
			}
			mustBeGone(t, d, servers...)
		})
	}
}

// If nothing leads to the daemon any more, an error says so, and the daemon and its servers still end.
func TestQuitWithoutTheDaemonsFiles(t *testing.T) {
	d := startFake(t, Config{}, "")
	steer(t, d, "fake_connect 77")
	servers, err := d.listServers(background)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{d.root, d.spare.Path()} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if mended, err := d.Mend(); !mended || err == nil {
		t.Errorf("mended: %v, %v", mended, err)
	}
	if err := d.Quit(background); err != nil {
		t.Error(err)
	}
	mustBeGone(t, d, servers...)
}
