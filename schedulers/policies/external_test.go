package policies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers/engine"
	"github.com/caserun/caserun/schedulers/engine/enginetest"
	"github.com/caserun/caserun/schedulers/policies"
)

// The path of a program may have equals signs, is kept as it is, and is in a run's parameters
// without its folder.
func TestAProgramIsNamedByItsPath(t *testing.T) {
	const defaults = "age-limit=64,path=%,queue=largest-first,wait-limit=0s"
	for _, c := range []struct{ text, path, want string }{
		{"exec:./p.py", "./p.py", strings.Replace(defaults, "%", "p.py", 1)},
		{"exec:path=/a/b=c/08", "/a/b=c/08", strings.Replace(defaults, "%", "08", 1)},
		{"exec:a=b.py", "a=b.py", strings.Replace(defaults, "%", "a=b.py", 1)},
		{"exec:./queue=fifo", "./queue=fifo", strings.Replace(defaults, "%", "queue=fifo", 1)},
		{"exec:a:b c.py", "a:b c.py", strings.Replace(defaults, "%", "a:b c.py", 1)},
		{"exec:p,sha256=000012345678", "p", "age-limit=64,path=p,queue=largest-first,sha256=000012345678,wait-limit=0s"},
		{"exec:queue=fifo,timeout=0.5s,path=p.py,age-limit=3,wait-limit=90s,isolate=known", "p.py",
			"age-limit=3,isolate=known,path=p.py,queue=fifo,timeout=500ms,wait-limit=1m30s"},
	} {
		s, err := policies.Parse(c.text, 4)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if s.Program == nil || s.Program.Path != c.path || s.Policy != nil {
			t.Errorf("%s: program %+v, policy %v; want the path %s, and no policy before somebody starts it", c.text, s.Program, s.Policy, c.path)
		}
		got := s.Parameters()
		if got != c.want {
			t.Errorf("%s: parameters %q, want %q", c.text, got, c.want)
		}
		if again, err := policies.Parse(s.Name+":"+got, 4); err != nil || again.Parameters() != got {
			t.Errorf("%s: canonical text %q reads back as %q, %v", c.text, got, again.Parameters(), err)
		}
	}
	s, err := policies.Parse("exec:p,timeout=3s,queue=fifo,age-limit=2", 1)
	if err != nil || s.Program.Timeout != 3*time.Second || s.Config.Queue != engine.FIFO || s.Config.AgeLimit != 2 {
		t.Errorf("timeout %v, configuration %+v, %v", s.Program.Timeout, s.Config, err)
	}
}

func TestProgramsThatCannotBeNamed(t *testing.T) {
	for text, want := range map[string]string{
		"exec":                       "which program? write exec:PATH",
		"exec:queue=fifo":            "which program? write exec:PATH",
		"exec:./a,b.py":              `parameter "b.py": want key=value with a key of path, sha256, timeout, queue, age-limit, wait-limit, isolate; a path cannot have a comma`,
		"exec:./p.py,room=0.1":       `parameter "room=0.1": want key=value`,
		"exec:./p.py,path=q.py":      "path is given twice",
		"exec:p\nq":                  `path="p\nq": want one line of UTF-8 text`,
		"exec:p,timeout=0s":          "timeout=0s: want a duration above 0",
		"exec:p,timeout=1":           "timeout=1: want a duration above 0",
		"exec:p,sha256=123":          "sha256=123: want the first 12 digits",
		"exec:p,sha256=00001234567G": "want the first 12 digits",
		"exec:p,isolate=all":         "isolate=all: use none or known",
		"exec:p,queue=lifo":          `unknown queue order "lifo"`,
	} {
		if _, err := policies.Parse(text, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// A text that is pinned means the same scheduler, and only with the content of the pin.
func TestPins(t *testing.T) {
	const sum, other = "0123456789ab", "ffffffffffff"
	for _, text := range []string{"exec:./p.py", "exec:queue=fifo,path=p=q"} {
		s, err := policies.Parse(text, 4)
		if err != nil {
			t.Fatal(err)
		}
		pinned := s.Pinned(sum)
		if s.Program.SHA256 != "" || strings.Contains(s.Parameters(), "sha256") {
			t.Errorf("%s: pinning changed the original: %+v", text, s.Program)
		}
		longer := pinned.PinnedText(text)
		again, err := policies.Parse(longer, 4)
		if err != nil || again.Program.SHA256 != sum || again.Parameters() != pinned.Parameters() {
			t.Errorf("%s: pinned %s, %+v, %v", text, longer, again.Program, err)
		}
		if got := again.Pinned(other).PinnedText(longer); got != longer {
			t.Errorf("%s was pinned again: %s", longer, got)
		}
		if !policies.IsPinned(longer, text) || !policies.IsPinned(text, text) || policies.IsPinned(text, longer) || policies.IsPinned(longer, "exec:./p") {
			t.Errorf("%s and %s", longer, text)
		}
	}
	if s, err := policies.Parse("case-alg3", 4); err != nil || s.PinnedText("case-alg3") != "case-alg3" {
		t.Errorf("case-alg3 is pinned: %v", err)
	}
}

func TestInFolder(t *testing.T) {
	for text, want := range map[string]string{
		"exec:./p.py,queue=fifo":   "exec:path=conf/p.py,queue=fifo",
		"exec:queue=fifo,path=p=q": "exec:queue=fifo,path=conf/p=q",
		"exec:/a/p.py":             "exec:/a/p.py",
		"exec":                     "exec",
		"exec:,x":                  "exec:,x",
		"case-alg3:queue=fifo":     "case-alg3:queue=fifo",
		"unknown:./p.py":           "unknown:./p.py",
	} {
		if got := policies.InFolder("conf", text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestOnlyOneSchedulerIsExternal(t *testing.T) {
	if all, listed := len(enginetest.Policies()), len(policies.Listed()); listed != all+1 {
		t.Errorf("%d listed, %d have a policy here", listed, all)
	}
}
