package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// clearLine moves the cursor to the begin of its line and empties the line.
const clearLine = "\r\x1b[K"

// openTerminal makes a pseudo-terminal of so many columns. What is written to the terminal is read
// from the master.
func openTerminal(t *testing.T, columns uint16) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns}); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

// onTerminal runs the program with its standard output on a terminal, and gives what this showed.
func onTerminal(t *testing.T, columns uint16, args ...string) (status int, shown string) {
	t.Helper()
	t.Setenv("NO_COLOR", "1")
	master, terminal := openTerminal(t, columns)
	done := make(chan int, 1)
	go func() {
		done <- run(context.Background(), args, strings.NewReader(""), terminal, io.Discard)
		terminal.Close()
	}()
	shown = strings.ReplaceAll(readAll(t, master), "\r\n", "\n")
	return <-done, shown
}

// readAll reads what a terminal shows until nobody has the terminal open.
func readAll(t *testing.T, master *os.File) string {
	t.Helper()
	text, err := io.ReadAll(master)
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	return string(text)
}

// Tables fit the terminal that shows them. Off a terminal they are whole.
func TestTablesFitTheTerminal(t *testing.T) {
	inTempDir(t)
	simulate(t, "--scheds", "sa,case-alg3", "--reps", "6")
	for args, wants := range map[string]string{
		"report": "-v shows every column.", "report -v": "\nrun              1\n", "report 1 -v": "--format csv has every\ncolumn.",
		"report 1": "mean turnaround", "sweep show": "low, high", "sweep --mixes W1..W8 --scheds sa --node sim:4xV100 --dry-run": "position  mix  scheduler", "sweep list": "sim:2xP100", "sweep list -v": "\nsweep        1\n",
		"compare sweep:1/sa sweep:1/case-alg3": "better", "regress --baseline sweep:1/sa --candidate sweep:1/sa": "",
		"doctor": "libcase", "paper": "Table 3", "schedulers": "case-alg3", "mixes list": "W1", "mixes show W7": "needle",
		"sweep --help": "sim:4xV100", "sweep show --help": "low, high", "mixes learn --help": "--in-place", "mix --help": "--mem-cap", "--help": "Usage:", "help environment": "CASERUN_DB", "help slurm": "--gres", "help metrics": "makespan", "help formats": "tsv", "help exit-codes": "99",
	} {
		for _, columns := range []uint16{80, 120} {
			_, shown := onTerminal(t, columns, strings.Fields(args)...)
			for line := range strings.Lines(shown) {
				line = strings.TrimSuffix(line, "\n")
				example := strings.HasPrefix(line, "  caserun ") // is copied as it is
				if n := utf8.RuneCountInString(line); n > int(columns) && !example {
					t.Errorf("caserun %s on %d columns: a line of %d: %s", args, columns, n, line)
				}
			}
			if columns == 80 && !strings.Contains(shown, wants) {
				t.Errorf("caserun %s on %d columns lacks %q:\n%s", args, columns, wants, shown)
			}
		}
	}
	for args, want := range map[string]string{"report": "mean util", "sweep show": "makespan  mean util", "compare sweep:1 --by mix": " to "} {
		if _, piped, _ := caserun(t, strings.Fields(args)...); !strings.Contains(piped, want) || strings.Contains(piped, "narrow") {
			t.Errorf("caserun %s off a terminal lacks %q:\n%s", args, want, piped)
		}
	}
}

// A message begins on a line of its own, also when Ctrl-C has left ^C behind the progress.
func TestCtrlCClearsTheProgress(t *testing.T) {
	master, terminal := openTerminal(t, 80)
	t.Setenv("TERM", "xterm")
	c := process(t.TempDir(), endless()...)
	c.Stdin, c.Stderr = terminal, terminal
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // of stdin
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	shown, buffer := "", make([]byte, 4096)
	for !strings.Contains(shown, clearLine+"[") {
		n, err := master.Read(buffer)
		if err != nil {
			t.Fatalf("%v after %q", err, shown)
		}
		shown += string(buffer[:n])
	}
	if _, err := master.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	shown += readAll(t, master)
	_ = c.Wait() // the status says it
	if status := c.ProcessState.ExitCode(); status != exitInterrupted {
		t.Errorf("exit %d, want %d", status, exitInterrupted)
	}
	if !strings.Contains(shown, "caserun: stopping; once more ends at once") {
		t.Errorf("it did not say that it stops: %q", shown)
	}
	if bad := regexp.MustCompile(`[^\n]caserun: .*`).FindString(strings.ReplaceAll(shown, clearLine, "\n")); bad != "" {
		t.Errorf("a message is behind progress: %q in\n%q", bad, shown)
	}
}
