package mixes

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caserun/caserun/internal/size"
)

// WriteYAML writes a mix in the form that Load reads. Load returns the same mix except for
// Source. A mix that has no such form (no jobs, a class that contradicts its bytes, text that is
// not UTF-8) is an error, and nothing is written.
func WriteYAML(w io.Writer, m Mix) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "name: %s\n", scalar(m.Name))
	if m.Description != "" {
		fmt.Fprintf(&b, "description: %s\n", scalar(m.Description))
	}
	if m.Ratio != "" {
		fmt.Fprintf(&b, "ratio: %s\n", scalar(m.Ratio))
	}
	writeCredits(&b, m)
	if m.Arrivals != nil {
		fmt.Fprintf(&b, "arrivals: %s\n", m.Arrivals.yaml())
	}
	b.WriteString("jobs:\n")
	for i := 0; i < len(m.Jobs); {
		same := 1
		for i+same < len(m.Jobs) && m.Jobs[i+same].equal(m.Jobs[i]) {
			same++
		}
		writeJob(&b, m.Jobs[i], same)
		i += same
	}
	ofSuite := func(string) bool { return true } // the user's suite may have any program
	back, err := parseYAML(newLines(m.Name, bytes.NewReader(b.Bytes())), builtin().jobs, ofSuite)
	if err != nil {
		return fmt.Errorf("write mix %q: it has no YAML form: %w", m.Name, err)
	}
	if back.Name != m.Name || back.Description != m.Description || back.Ratio != m.Ratio || back.OpenLoad() != m.OpenLoad() {
		return fmt.Errorf("write mix %q: its name, description, ratio or arrivals has no YAML form", m.Name)
	}
	if i := firstDifference(back.Jobs, m.Jobs); i >= 0 {
		return fmt.Errorf("write mix %q: job %d (%s) has no YAML form", m.Name, i, m.Jobs[i].Name)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// writeCredits writes the credits of users. Keys are quoted, because a plain one may be a number or true.
func writeCredits(b *bytes.Buffer, m Mix) {
	var users []string
	seen := map[string]bool{}
	for i := range m.Jobs {
		if j := &m.Jobs[i]; j.Credits != 0 && !seen[j.User] {
			seen[j.User] = true
			users = append(users, quoted(j.User)+": "+strconv.Itoa(j.Credits))
		}
	}
	if len(users) > 0 {
		fmt.Fprintf(b, "credits: {%s}\n", strings.Join(users, ", "))
	}
}

// firstDifference compares lists of the same length.
func firstDifference(a, b []Job) int {
	for i := range a {
		if !a[i].equal(b[i]) {
			return i
		}
	}
	return -1
}

func writeJob(b *bytes.Buffer, j Job, count int) {
	var keys []string
	put := func(key, value string) { keys = append(keys, key+": "+value) }
	putText := func(key, value string) {
		if value != "" {
			put(key, scalar(value))
		}
	}
	putNumber := func(key string, value uint64) {
		if value != 0 {
			put(key, strconv.FormatUint(value, 10))
		}
	}

	if ref, found := builtin().jobs.byName[j.Name]; found && sameCommand(ref, j) {
		put("job", scalar(j.Name))
	} else {
		putText("name", j.Name)
		putText("program", j.Program)
		if len(j.Args) > 0 {
			put("args", list(j.Args))
		}
		putText("stdin", j.Stdin)
		if j.Footprint.Bytes != 0 {
			put("memory", size.FormatChosen(j.Footprint.Bytes))
		}
		putNumber("blocks", j.Footprint.Blocks)
		putNumber("threads_per_block", uint64(j.Footprint.ThreadsPerBlock))
	}
	putText("dir", j.Dir)
	if len(j.Env) > 0 {
		put("env", list(j.Env))
	}
	if j.Isolate {
		put("isolate", "true")
	}
	if j.Long {
		put("long", "true")
	}
	if j.Computes {
		put("sensitive", toComputation)
	}
	if j.KnownFault {
		put("faults", knownFault)
	}
	putNumber("check_status", uint64(j.CheckStatus))
	if j.Restartable != nil {
		put("restartable", strconv.FormatBool(*j.Restartable))
	}
	if len(j.RestartKernels) > 0 {
		put("restart_kernels", list(j.RestartKernels))
	}
	if j.UntilOthersEnd {
		put("until_others_end", "true")
	}
	putNumber("group", uint64(j.Group))
	if j.At != 0 {
		put("at", j.At.String())
	}
	putNumber("priority", uint64(j.Priority))
	putNumber("ranks", uint64(j.Ranks))
	putNumber("portions", uint64(j.Portions))
	if j.Pin {
		put("pin", "true")
	}
	if j.Binding != BindProbe {
		put("binding", j.Binding.String())
	}
	putNumber("gpus", uint64(j.GPUs))
	if j.Share != 0 {
		put("share", strconv.FormatFloat(j.Share, 'f', -1, 64))
	}
	if j.Timeout != 0 {
		put("timeout", j.Timeout.String())
	}
	if j.Wait != nil {
		put("wait", waitText(*j.Wait))
	}
	if j.MaxWait != 0 {
		put("max_wait", j.MaxWait.String())
	}
	putText("user", j.User)
	if j.Deadline != 0 {
		put("deadline", j.Deadline.String())
	}
	if j.Profile != nil {
		put("profile", profileText(j.Profile))
	}
	putText("steps", j.Steps)
	if count > 1 {
		put("count", strconv.Itoa(count))
	}

	if name, plain := strings.CutPrefix(keys[0], "job: "); plain && len(keys) == 1 {
		fmt.Fprintf(b, "  - %s\n", name)
		return
	}
	fmt.Fprintf(b, "  - %s\n", strings.Join(keys, "\n    "))
}

func waitText(d time.Duration) string {
	if d == 0 {
		return noWait
	}
	return d.String()
}

func sameCommand(a, b Job) bool {
	return a.Program == b.Program && slices.Equal(a.Args, b.Args) && a.Stdin == b.Stdin && a.Footprint == b.Footprint
}

func list(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = scalar(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// plain text needs no quotes anywhere in YAML. Its YAML type does not matter, because the reader
// takes values as they are written.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./+-][A-Za-z0-9_./+=-]*$`)

func scalar(s string) string {
	if plain.MatchString(s) && strings.ContainsFunc(s, isLetterOrDigit) && !strings.EqualFold(s, "null") {
		return s
	}
	return quoted(s)
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == ' ' || unicode.IsGraphic(c) && c != utf8.RuneError:
			b.WriteRune(c)
		case c <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func isLetterOrDigit(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }
