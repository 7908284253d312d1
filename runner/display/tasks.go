package display

import (
	"fmt"
	"io"
	"strings"

	"github.com/caserun/caserun/runner/slurm"
)

// Tasks shows how far the tasks of a sweep are, when that changes.
type Tasks struct {
	line Line
	last string
}

// NewTasks shows tasks on w.
func NewTasks(w io.Writer) *Tasks { return &Tasks{line: NewLine(w)} }

// Show takes the tasks as Slurm has them, and how many of all runs are collected.
func (t *Tasks) Show(tasks []slurm.Task, done, of int) {
	var running, waiting, ended int
	for _, task := range tasks {
		switch {
		case task.Ended():
			ended++
		case task.State == "RUNNING":
			running++
		default:
			waiting++
		}
	}
	text := fmt.Sprintf("tasks: %d running, %d waiting%s, %d ended", running, waiting, why(slurm.Waits(tasks)), ended)
	if of > 0 {
		text = fmt.Sprintf("[%d/%d] ", done, of) + text
	}
	if text != t.last {
		t.line.Show(text)
	}
	t.last = text
}

// Stop leaves the last state on the terminal.
func (t *Tasks) Stop() {
	if t.line.Animated && t.last != "" {
		fmt.Fprintln(t.line.w)
	}
}

// why is for what tasks wait, such as " (1 Resources, 3 Priority)".
func why(waits []slurm.Wait) string {
	var reasons []string
	for _, w := range waits {
		reasons = append(reasons, fmt.Sprintf("%d %s", w.Tasks, w.Short()))
	}
	if len(reasons) == 0 {
		return ""
	}
	return " (" + strings.Join(reasons, ", ") + ")"
}
