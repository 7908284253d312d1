package mps

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// tailLines is the number of lines of each log in an error.
const tailLines = 15

// noise marks the control daemon's lines about this package's own commands.
var noise = []string{"] Accepting connection...", "] NEW UI", "] UI closed", "] Cmd:"}

// logFile returns the path of a log. In the foreground the daemon and its servers write everything
// to stdout and stderr (seen with driver 580), which go to "output".
func (d *Daemon) logFile(name string) string { return filepath.Join(d.root, "log", name) }

// logTail returns the end of the logs as an error; nil if they are empty.
func (d *Daemon) logTail() error {
	var parts []string
	for _, name := range []string{"output", "control.log", "server.log"} {
		text, err := os.ReadFile(d.logFile(name))
		if err != nil {
			continue
		}
		if lines := tail(string(text)); len(lines) > 0 {
			parts = append(parts, fmt.Sprintf("end of MPS's %s:\n\t%s", name, strings.Join(lines, "\n\t")))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return logError(strings.Join(parts, "\n"))
}

// logError carries log lines inside a joined error.
type logError string

func (e logError) Error() string { return string(e) }

func tail(text string) []string {
	var lines []string
next:
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		for _, n := range noise {
			if strings.Contains(line, n) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines[max(0, len(lines)-tailLines):]
}
