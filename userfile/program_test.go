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
