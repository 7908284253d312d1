package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A working directory that was deleted is named as that.
func TestDeletedWorkingDirectory(t *testing.T) {
	dir := inTempDir(t)
	for _, args := range []string{"mix W1 --node sim:2xV100", "report", "sweep --mixes W1 --scheds sa --node sim:2xV100"} {
		c := exec.Command("/bin/sh", "-c", "mkdir gone && cd gone && rmdir ../gone && exec "+os.Args[0]+" "+args)
		c.Dir, c.Env = dir, append(os.Environ(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		if status, text := finish(t, c); status != exitInfrastructure || !strings.Contains(text, "the working directory was deleted") {
			t.Errorf("%s: exit %d: %s", args, status, text)
		}
	}
}
