package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results/report"
)

// elision is a line of a document's output that stands for any number of lines.
const elision = "..."

// The line before a block can say what the test does with it.
var (
	notRunComment = regexp.MustCompile(`^<!-- not run: \S.* -->$`)
	fileComment   = regexp.MustCompile(`^<!-- file: (\S+) -->$`)
)

// TestDocuments runs the console blocks of the documents, and compares their output with the
// output that the document shows. -update rewrites the documents.
//
// Each document has a directory of its own, so that a command sees what the commands
// before it have stored. A command is run by sh and shows what its stdout shows on a terminal of report.Width
// columns; stderr has progress, which depends on the machine. Its exit status is 0, unless the next command reads $?. A
// comment before a block changes that:
//
//	<!-- not run: needs a GPU -->   the block is not run; TestDocumentedCommands parses its flags
//	<!-- file: nightly.yaml -->     the block is a file for the commands
func TestDocuments(t *testing.T) {
	for _, path := range documents(t) {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			shell := newShell(t)
			got, err := runDocument(string(text), shell.run, shell.write)
			if err != nil {
				t.Fatal(err)
			}
			if *update && got != string(text) {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("its commands print something else now (-update rewrites it):\n%s", diff)
			}
		})
	}
}

// runCommand runs a command, behind one with the exit status last.
type runCommand func(command string, last int) (stdout, stderr string, status int)

// runDocument returns the document with the output that its commands have now. Output that
// matches what the document shows, elisions included, stays as it is.
func runDocument(text string, run runCommand, write func(name, content string) error) (string, error) {
	lines := strings.Split(text, "\n")
	var out []string
	last := 0
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		n := slices.Index(lines[i+1:], "```")
		if n < 0 {
			return "", fmt.Errorf("line %d: the block does not end", i+1)
		}
		comment := ""
		if i > 0 {
			comment = lines[i-1]
		}
		block := lines[i+1 : i+1+n]
		switch file := fileComment.FindStringSubmatch(comment); {
		case file != nil:
			if err := write(file[1], strings.Join(block, "\n")+"\n"); err != nil {
				return "", err
			}
		case lines[i] == "```console" && !notRunComment.MatchString(comment):
			shown, status, err := runBlock(block, last, run)
			if err != nil {
				return "", fmt.Errorf("block at line %d: %w", i+1, err)
			}
			block, last = shown, status
		}
		out = append(append(out, block...), "```")
		i += n + 1
	}
	return strings.Join(out, "\n"), nil
}

func runBlock(block []string, last int, run runCommand) ([]string, int, error) {
	var out []string
	for i := 0; i < len(block); {
		if !strings.HasPrefix(block[i], "$ ") {
			return nil, 0, fmt.Errorf("begins with output, %q: a command begins with \"$ \"", block[i])
		}
		command := []string{block[i]}
		for i++; strings.HasSuffix(command[len(command)-1], `\`) && i < len(block); i++ {
			command = append(command, block[i])
		}
		end := i
		for end < len(block) && !strings.HasPrefix(block[end], "$ ") {
			end++
		}
		output, messages, status := run(strings.TrimPrefix(strings.Join(command, "\n"), "$ "), last)
		if asks := end < len(block) && strings.Contains(block[end], "$?"); status != 0 && !asks {
			return nil, 0, fmt.Errorf("%s: exit status %d:\n%s%s", strings.Join(command, "\n"), status, output, messages)
		}
		last = status
		out = append(append(out, command...), merge(block[i:end], outputLines(output))...)
		i = end
	}
	return out, last, nil
}

func outputLines(output string) []string {
	if output == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(output, "\n"), "\n")
}

// merge gives the output as the document should show it: as shown, if it matches, and else
// with as many lines before the first elision and behind the last as there are now.
func merge(shown, output []string) []string {
	if matches(shown, output) {
		return shown
	}
	first := slices.Index(shown, elision)
	if first < 0 {
		return output
	}
	behind := 0
	for shown[len(shown)-1-behind] != elision {
		behind++
	}
	if first+behind >= len(output) {
		return output
	}
	return slices.Concat(output[:first], []string{elision}, output[len(output)-behind:])
}

// matches reports whether output is what is shown, where an elision is any number of lines.
func matches(shown, output []string) bool {
	for i, line := range shown {
		if line == elision {
			for skip := range len(output) - i + 1 {
				if matches(shown[i+1:], output[i+skip:]) {
					return true
				}
			}
			return false
		}
		if i >= len(output) || output[i] != line {
			return false
		}
	}
	return len(output) == len(shown)
}

// shell runs the commands of one document, with this test binary as caserun.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

func newShell(t *testing.T) *shell {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, dir: t.TempDir()}
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", mainEnv, program)
	if err := os.WriteFile(filepath.Join(bin, "caserun"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	// Commands name the bundles of docs/results as from the repository's root.
	if err := os.Symlink(docs, filepath.Join(s.dir, "docs")); err != nil {
		t.Fatal(err)
	}
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "CASERUN_") && !strings.HasPrefix(setting, "CUDA_VISIBLE_DEVICES=") {
			s.env = append(s.env, setting)
		}
	}
	// No GPU, so that the documents' output is the same on every machine.
	s.env = append(s.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "CUDA_VISIBLE_DEVICES=", "NO_COLOR=1", "LC_ALL=C")
	return s
}

// run elides the lines that name the directory.
func (s *shell) run(command string, last int) (stdout, stderr string, status int) {
	c := exec.Command("sh", "-c", fmt.Sprintf("(exit %d)\n%s", last, command))
	var errs bytes.Buffer
	master, terminal := openTerminal(s.t, report.Width)
	c.Dir, c.Env, c.Stdout, c.Stderr = s.dir, s.env, terminal, &errs
	err := c.Start()
	terminal.Close()
	if err != nil {
		return "", err.Error(), -1
	}
	lines := strings.SplitAfter(strings.ReplaceAll(readAll(s.t, master), "\r\n", "\n"), "\n")
	_ = c.Wait() // its state says it
	master.Close()
	for i, line := range lines {
		if strings.Contains(line, s.dir) {
			lines[i] = elision + "\n"
		}
	}
	return strings.Join(lines, ""), errs.String(), c.ProcessState.ExitCode()
}

func (s *shell) write(name, content string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o644)
}

// What a document shows is held to what its commands print.
func TestRunDocument(t *testing.T) {
	doc := func(lines ...string) string { return strings.Join(lines, "\n") }
	output := map[string]string{"count": "one\ntwo\nthree\nfour\n", "quiet": "", "fail": "no\n", `long \` + "\n  --flag": "ok\n"}
	run := func(command string, last int) (stdout, stderr string, status int) {
		if command == "echo $?" {
			return fmt.Sprintln(last), "", 0
		}
		if command == "fail" {
			return output[command], "why", 7
		}
		return output[command], "progress", 0
	}
	for name, test := range map[string]struct{ text, want string }{
		"output that differs is replaced": {
			doc("```console", "$ count", "one", "$ quiet", "noise", "```", "text"),
			doc("```console", "$ count", "one", "two", "three", "four", "$ quiet", "```", "text")},
		"an elision that matches stays": {
			doc("```console", "$ count", "one", "...", "four", "```"),
			doc("```console", "$ count", "one", "...", "four", "```")},
		"an elision may be nothing": {
			doc("```console", "$ count", "one", "two", "three", "four", "...", "```"),
			doc("```console", "$ count", "one", "two", "three", "four", "...", "```")},
		"an elision keeps its place": {
			doc("```console", "$ count", "1", "...", "4", "```"),
			doc("```console", "$ count", "one", "...", "four", "```")},
		"a block that is not run stays": {
			doc("<!-- not run: needs a GPU -->", "```console", "$ count", "```", "```sh", "count", "```"),
			doc("<!-- not run: needs a GPU -->", "```console", "$ count", "```", "```sh", "count", "```")},
		"a command may have several lines": {
			doc("```console", `$ long \`, "  --flag", "```"),
			doc("```console", `$ long \`, "  --flag", "ok", "```")},
		"an exit status that is read may be any": {
			doc("```console", "$ fail", "$ echo $?", "```"),
			doc("```console", "$ fail", "no", "$ echo $?", "7", "```")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runDocument(test.text, run, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, text := range map[string]string{
		"a command that fails":           doc("```console", "$ fail", "no", "```"),
		"output without a command":       doc("```console", "one", "```"),
		"a block without an end":         doc("```console", "$ count"),
		"a comment that gives no reason": doc("<!-- not run: -->", "```console", "$ fail", "```"),
	} {
		if _, err := runDocument(text, run, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	files := map[string]string{}
	write := func(name, content string) error { files[name] = content; return nil }
	if _, err := runDocument(doc("<!-- file: a.yaml -->", "```yaml", "x: 1", "```"), run, write); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.yaml": "x: 1\n"}, files); diff != "" {
		t.Errorf("files: %s", diff)
	}
}

// documents are the paths of all pages.
func documents(t *testing.T) []string {
	t.Helper()
	paths := []string{"../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md"}
	err := filepath.WalkDir("../../docs", func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// Links between the documents lead to files and headings that are there.
func TestDocumentLinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	found := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range links.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			file, heading, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			content, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: link to %s: %v", path, m[1], err)
			} else if heading != "" && !slices.Contains(anchors(string(content)), heading) {
				t.Errorf("%s: link to %s: no such heading", path, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no links found in the documents")
	}
}

// Pages that code, comments, messages and documents name by their path are there.
func TestNamedPages(t *testing.T) {
	tracked, err := exec.Command("git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bdocs/[\w./-]+\.md\b`)
	found := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(tracked), "\x00"), "\x00") {
		if slices.Contains([]string{".gz", ".png", ".svg"}, filepath.Ext(path)) || path == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		if errors.Is(err, fs.ErrNotExist) { // deleted, and not yet committed
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range named.FindAllString(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join("../..", page)); err != nil && page != "docs/none.md" {
				t.Errorf("%s names %s: %v", path, page, err)
			}
		}
	}
	if found == 0 {
		t.Error("no names of pages found")
	}
}

// anchors are the names by which links reach the headings of a page.
func anchors(page string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return out
}

// Files of the repository that the documents name are there, except libraries, which are built.
func TestDocumentedFiles(t *testing.T) {
	files := regexp.MustCompile("`((?:benchmarks|cmd|collectors|docs|mixes|native|results|runner|schedulers|userfile)/[\\w./-]+)`")
	found := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range files.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join("../..", m[1])); err != nil && !slices.Contains([]string{".so", ".a"}, filepath.Ext(m[1])) {
				t.Errorf("%s: %s: no such file", path, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("the documents name no files")
	}
}
