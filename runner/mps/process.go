package mps

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/caserun/caserun/runner/child"
)

// launch starts the daemon in the foreground (-f), because one that puts itself
// into the background (-d) leaves our process tree and outlives a killed run. It
// closes out.
func launch(program string, env []string, out *os.File) (*child.Process, error) {
	cmd := exec.Command(program, "-f")
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = out, out
	p, err := child.Start(cmd, syscall.SIGKILL)
	if closeErr := out.Close(); err == nil && closeErr != nil {
		err = errors.Join(closeErr, p.Kill())
	}
	return p, err
}

// daemonIn returns the daemon that serves a pipe directory, if it runs. The
// daemon writes its PID there; a file that a dead one left behind names no
// process, or one with another name.
func daemonIn(pipeDir string) (pid int, ok bool) {
	text, err := os.ReadFile(filepath.Join(pipeDir, control+".pid"))
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, false
	}
	return pid, runs(pid, control)
}

// runs reports whether process pid is the named program. A process's comm has
// 15 bytes at most (proc(5)), so the program's name is compared in full from
// its command line.
func runs(pid int, name string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	for i, arg := range strings.Split(string(cmdline), "\x00") {
		// A script's interpreter comes first.
		if i < 2 && filepath.Base(arg) == name {
			return true
		}
	}
	return false
}
