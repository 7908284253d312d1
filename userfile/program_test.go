package userfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What execve(2) calls "no such file" of a program that exists is named.
func TestNotStarted(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := file("missing", "#! /nowhere/python -u\n", 0o755)
	truth, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	foreign := strings.Replace(string(truth), "/lib64/ld-linux", "/lib64/xx-linux", 1)
	for _, c := range []struct{ path, dir, want string }{
		{missing, dir, "its interpreter /nowhere/python, which its first line names, cannot be found: install it, or correct the line"},
		{file("relative", "#!python\n", 0o755), dir, "its interpreter " + dir + "/python, which its first line names, cannot be found"},
		{file("tab", "#!/nowhere/python\t-u", 0o755), dir, "its interpreter /nowhere/python,"},
		{file("nested", "#!"+missing+"\n", 0o755), dir, missing + ": its interpreter /nowhere/python,"},
		{file("crlf", "#!/bin/sh\r\nexit\r\n", 0o755), dir, "its first line ends with a carriage return"},
		{file("crlf missing", "#!/nowhere/sh\r\n", 0o755), dir, "its first line ends with a carriage return"},
		{file("none", "#!\n", 0o755), dir, "#! without an interpreter"},
		{file("mark", "\xef\xbb\xbf#!/bin/sh\n", 0o755), dir, "a byte order mark is before #!"},
		{file("plain", "exit 0\n", 0o755), dir, "exec format error: let a script begin with a line such as #!/bin/sh"},
		{file("empty", "", 0o755), dir, "exec format error: let a script begin"},
		{file("locked", "#!"+file("text", "", 0o644)+"\n", 0o755), dir, "text, which its first line names, may not be run"},
		{file("foreign", foreign, 0o755), dir, "its loader /lib64/xx-linux"},
		{file("closed", "#!/bin/sh\n", 0o644), dir, "permission denied"},
		{file("closed text", "exit 0\n", 0o644), dir, "permission denied"},
		{file("damaged", "\x7fELF", 0o755), dir, "exec format error: it is damaged, or a program of another machine"},
		{filepath.Join(dir, "absent"), dir, "no such file or directory"},
		{"/bin/true", filepath.Join(dir, "gone"), "working directory " + dir + "/gone: it is gone"},
	} {
		cmd := exec.Command(c.path)
		cmd.Dir = c.dir
		err := cmd.Run()
		if err == nil {
			t.Errorf("%s started", c.path)
		} else if got := NotStarted(c.path, c.dir, err).Error(); !strings.Contains(got, c.want) || !strings.Contains(c.want, "no such") && strings.Contains(got, "no such") {
			t.Errorf("%s: %s; want %s", c.path, got, c.want)
		}
	}
}

// What cannot start is known before a run begins.
func TestRunnable(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("bin/there", "#!/bin/sh\n", 0o755)
	file("bin/closed", "#!/bin/sh\n", 0o644)
	for path, want := range map[string]string{
		"/bin/true":                                           "",
		file("script", "#!/bin/sh\n", 0o755):                  "",
		file("nested", "#!"+dir+"/script\n", 0o755):           "",
		file("by env", "#!/usr/bin/env there", 0o755):         "",
		file("split", "#! /usr/bin/env -S there -u", 0o755):   "",
		file("odd", "#!/usr/bin/env -i there", 0o755):         "",
		file("set", "#!/usr/bin/env A=b gone", 0o755):         "",
		file("jar", "PK\x03\x04", 0o755):                      "", // the kernel may have a handler
		filepath.Join(dir, "absent"):                          "no such file or directory: build it, or correct its path",
		filepath.Join(dir, "script", "x"):                     "not a directory: build it, or correct its path",
		dir:                                                   "it is a directory: name a program in it",
		"/dev/null":                                           "it is a device",
		file("closed", "#!/bin/sh\n", 0o644):                  "it may not be run: make it executable (chmod +x)",
		file("missing", "#!/nowhere/python\n", 0o755):         "its interpreter /nowhere/python, which its first line names, cannot be found",
		file("folder", "#!"+dir+"\n", 0o755):                  "may not be run",
		file("crlf", "#!/bin/sh\r\n", 0o755):                  "carriage return",
		file("text", "exit\n", 0o755):                         "exec format error",
		file("empty", "", 0o755):                              "exec format error",
		file("env gone", "#!/usr/bin/env gone", 0o755):        "its interpreter gone, which its first line has /usr/bin/env look for in PATH, cannot be found",
		file("env closed", "#!/bin/env closed", 0o755):        "cannot be found",
		file("env split", "#!/usr/bin/env -S gone -u", 0o755): "its interpreter gone",
	} {
		err := Runnable(path, dir, "/nowhere:bin")
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}
