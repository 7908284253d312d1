package userfile

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// What the kernel reads of a script (BINPRM_BUF_SIZE), and how many interpreters it follows (Linux
// fs/binfmt_script.c, fs/exec.c).
const (
	firstBytes      = 256
	mostInterpreted = 5
)

// NotStarted returns why a program did not start in the directory dir, "" being this process's. execve(2) says
// ENOENT of a program that exists if its interpreter or its directory does not, and ENOEXEC of a script without #!.
// If there is nothing to add, it is err.
func NotStarted(program, dir string, err error) error {
	if info, failed := os.Stat(filepath.Join(dir, ".")); failed != nil || !info.IsDir() {
		return fmt.Errorf("working directory %s: it is gone", dir)
	}
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOEXEC) && !errors.Is(err, unix.EACCES) {
		return err
	}
	if unix.Access(program, unix.X_OK) != nil {
		return err
	}
	if why := unstartable(program, dir); why != nil {
		return why
	}
	if errors.Is(err, unix.ENOEXEC) {
		return errors.New("exec format error: it is damaged, or a program of another machine: build it for this one")
	}
	return err
}

// Runnable returns why a program cannot start in the directory dir, as far as files tell that; nil if it can. Beside what
// NotStarted says it looks for the program that a script has /usr/bin/env start, in the directories of searchPath (PATH).
func Runnable(program, dir, searchPath string) error {
	info, err := os.Stat(program)
	var failed *fs.PathError
	switch {
	case errors.As(err, &failed):
		return fmt.Errorf("%w: build it, or correct its path", failed.Err)
	case info.IsDir():
		return errors.New("it is a directory: name a program in it")
	case !info.Mode().IsRegular():
		return NotRegular{info.Mode().Type()}
	case unix.Access(program, unix.X_OK) != nil:
		return errors.New("it may not be run: make it executable (chmod +x), on a file system that is not mounted with noexec")
	}
	if why := unstartable(program, dir); why != nil {
		return why
	}
	return notFoundByEnv(program, dir, searchPath)
}

// unstartable returns why execve(2) cannot start a program, as the first bytes of it and of its interpreters show; nil: they show nothing.
func unstartable(program, dir string) error {
	for path, i := program, 0; i <= mostInterpreted; i++ {
		first, failed := firstLine(path)
		if failed != nil {
			return nil //nolint:nilerr // what cannot be read shows nothing
		}
		line, script := strings.CutPrefix(first, "#!")
		interpreter := strings.Trim(line, " \t")
		of := "" // whose fault it is
		if path != program {
			of = path + ": "
		}
		switch {
		case script && HasCR(path):
			return errors.New(of + CR)
		case script && interpreter == "":
			return errors.New(of + "its first line is #! without an interpreter")
		case script:
			interpreter = firstWord(interpreter)
		case strings.HasPrefix(first, elf.ELFMAG):
			if interpreter, failed = loaderOf(path); failed != nil || interpreter == "" {
				return nil //nolint:nilerr // nor does an odd ELF file
			}
		case strings.HasPrefix(first, "\ufeff#!"):
			return errors.New(of + "a byte order mark is before #! in its first line: remove it")
		case isText(first):
			return fmt.Errorf("%sexec format error: let a script begin with a line such as #!/bin/sh, and build a program for this machine", of)
		default: // the kernel may know the format (binfmt_misc)
			return nil
		}
		if !filepath.IsAbs(interpreter) {
			interpreter = filepath.Join(dir, interpreter)
		}
		info, failed := os.Stat(interpreter)
		what := "interpreter " + interpreter + ", which its first line names"
		switch {
		case script && failed != nil:
			return fmt.Errorf("%sits %s, cannot be found: install it, or correct the line", of, what)
		case failed != nil:
			return fmt.Errorf("%sits loader %s cannot be found: build it for this system", of, interpreter)
		case info.IsDir() || unix.Access(interpreter, unix.X_OK) != nil:
			return fmt.Errorf("%sits %s, may not be run", of, what)
		}
		path = interpreter
	}
	return nil
}

// notFoundByEnv returns an error if a script has env start a program that is not there.
func notFoundByEnv(program, dir, searchPath string) error {
	first, err := firstLine(program)
	line, script := strings.CutPrefix(first, "#!")
	words := strings.Fields(line)
	if err != nil || !script || len(words) < 2 || filepath.Base(words[0]) != "env" {
		return nil //nolint:nilerr // unstartable has looked at it
	}
	name := words[1]
	if name == "-S" && len(words) > 2 {
		name = words[2]
	}
	if strings.HasPrefix(name, "-") || strings.ContainsAny(name, "=/$\"'\\") { // what env makes of it is not looked at
		return nil
	}
	for _, in := range filepath.SplitList(searchPath) {
		if !filepath.IsAbs(in) {
			in = filepath.Join(dir, in)
		}
		path := filepath.Join(in, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && unix.Access(path, unix.X_OK) == nil {
			return nil
		}
	}
	return fmt.Errorf("its interpreter %s, which its first line has %s look for in PATH, cannot be found: install it, or correct the line", name, words[0])
}

// firstWord is a text up to the first blank.
func firstWord(s string) string {
	if end := strings.IndexAny(s, " \t"); end >= 0 {
		return s[:end]
	}
	return s
}

// isText reports whether the beginning of a file is not that of a binary program. An empty file is text.
func isText(first string) bool {
	return utf8.ValidString(first) && !strings.ContainsFunc(first, func(r rune) bool { return r < ' ' && r != '\t' })
}

// CR is what HasCR means to a user.
const CR = `its first line ends with a carriage return (CR LF, as Windows has it), which the kernel takes as part of the line: convert it with sed -i 's/\r$//'`

// HasCR reports whether a file is a script whose first line ends with a carriage return.
func HasCR(path string) bool {
	f, err := Open(path, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, firstBytes)
	n, _ := io.ReadFull(f, head)
	line, _, whole := bytes.Cut(head[:n], []byte("\n"))
	return whole && bytes.HasPrefix(line, []byte("#!")) && bytes.HasSuffix(line, []byte("\r"))
}

// firstLine is what the kernel sees of a file's first line, without a carriage return.
func firstLine(path string) (string, error) {
	f, err := Open(path, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, firstBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return strings.TrimSuffix(string(line), "\r"), nil
}

// loaderOf is the loader that a program names; "" if it names none.
func loaderOf(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name, err := io.ReadAll(io.LimitReader(p.Open(), unix.PathMax))
			return strings.TrimRight(string(name), "\x00"), err
		}
	}
	return "", nil
}
