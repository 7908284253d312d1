package mps

import (
	"bytes"
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

// launch starts the daemon in the foreground (-f), because a daemon in the background (-d) leaves
// our process tree and survives a killed run. launch closes out.
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

// daemonIn returns the daemon that serves a pipe directory, if it runs. The daemon writes its PID
// to a file there. The PID in a file of a dead daemon belongs to no process or to another program.
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

// runs reports whether process pid runs the named program. It compares the command line, because
// a process's comm has at most 15 bytes (proc(5)).
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

// alive reports whether a process runs. One that has ended and was not collected does not.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}
