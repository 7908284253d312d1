package display

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Ask asks a question on w that y or yes answers. asked is false if nobody can answer, because in is not a terminal.
func Ask(in io.Reader, w io.Writer, question string) (yes, asked bool) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, false
	}
	fmt.Fprintf(w, "%s [y/N] ", question)
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		fmt.Fprintln(w)
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", true
}
