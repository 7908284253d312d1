package policies

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/schedulers"
)

// Program is a program of the user's that decides for a scheduler (docs/reference/policy-protocol.md has its
// protocol).
type Program struct {
	Path    string        // as the user gave it
	SHA256  string        // the first HashDigits of the sha256 of its content; "": any content will do
	Timeout time.Duration // the longest that one decision may take
}

// HashDigits is how many hexadecimal digits name a program's content. 48 bits tell the versions of
// a file apart.
const HashDigits = 12

var (
	paramPath    = Param{Name: "path", Help: "the program's file, which must be executable; a run's record has its name without the folder"}
	paramSHA256  = Param{Name: "sha256", Help: "the first 12 digits of the sha256 of the program's file; a file with another content is refused; a run's record has them", OmitDefault: true}
	paramTimeout = Param{Name: "timeout", Default: "1s", Help: "a run ends if one decision takes longer", OmitDefault: true}
)

// external has its policy from elsewhere. Its first parameter may be the path alone, as in
// exec:./policy.py,queue=fifo. A path may have equals signs, but no commas.
var external = entry{
	Info: Info{Name: "exec", Binds: BindsTask, Shares: true, External: true,
		Brief:  "a program of yours decides, as in exec:./policy.py",
		Rule:   "a program of yours decides, as in exec:./policy.py: it reads one JSON object for each decision and answers with one",
		Source: "docs/guide/policies.md",
		Params: []Param{paramPath, paramSHA256, paramTimeout, paramQueue, paramAge, paramWait, paramIsolate}},
	policy: func(settings) (schedulers.Policy, error) { return nil, nil },
}

// HeadProgram settles the program that decides for a cluster's head (schedulers/cluster) from its text, such as exec:./head.py,timeout=2s.
func HeadProgram(text string) (*Program, error) {
	en := external
	en.Params = []Param{paramPath, paramSHA256, paramTimeout}
	s, _, err := en.settle(text)
	if err != nil {
		return nil, err
	}
	p, err := s.program()
	if err != nil {
		return nil, fmt.Errorf("scheduler %s: %w", en.Name, err)
	}
	return p, nil
}

// String is the text of a head's program as records have it: the path without its folder, and only what differs from the default.
func (p Program) String() string {
	text := external.Name + ":" + path.Base(p.Path)
	if p.SHA256 != "" {
		text += "," + paramSHA256.Name + "=" + p.SHA256
	}
	if limit := p.Timeout.String(); limit != paramTimeout.Default {
		text += "," + paramTimeout.Name + "=" + limit
	}
	return text
}

// commaHint says what to do about a path with a comma, whose second half looks like a parameter.
func (en entry) commaHint() string {
	if !en.External {
		return ""
	}
	return "; a path cannot have a comma: make a link to the file that has none"
}

// program returns the program that the parameters name, and leaves of its path only the name, so
// that the same file in another folder makes the same scheduler.
func (s settings) program() (*Program, error) {
	p := &Program{Path: s[paramPath.Name], SHA256: s[paramSHA256.Name]}
	switch {
	case p.Path == "":
		return nil, errors.New("which program? write exec:PATH, as in exec:./policy.py")
	case !utf8.ValidString(p.Path) || strings.ContainsFunc(p.Path, unicode.IsControl):
		return nil, fmt.Errorf("path=%q: want one line of UTF-8 text", p.Path)
	case p.SHA256 != "" && (len(p.SHA256) != HashDigits || strings.Trim(p.SHA256, "0123456789abcdef") != ""):
		return nil, fmt.Errorf("sha256=%s: want the first %d digits that sha256sum prints of the file, or leave it out", p.SHA256, HashDigits)
	}
	for _, param := range external.Params {
		if file, value, found := strings.Cut(p.Path, ":"+param.Name+"="); found {
			return nil, fmt.Errorf("path=%q: parameters follow after a comma: %s:%s,%s=%s", p.Path, external.Name, file, param.Name, value)
		}
	}
	var err error
	if p.Timeout, err = input.Duration(s[paramTimeout.Name]); err != nil || p.Timeout <= 0 {
		return nil, fmt.Errorf("timeout=%s: want a duration above 0, such as 500ms", s[paramTimeout.Name])
	}
	s[paramPath.Name] = path.Base(p.Path)
	return p, nil
}

// Pinned returns an external scheduler whose program has the content that the digits of its
// sha256 name.
func (s Scheduler) Pinned(sha256 string) Scheduler {
	program := *s.Program
	program.SHA256 = sha256
	s.Program, s.values = &program, maps.Clone(s.values)
	s.values[paramSHA256.Name] = sha256
	return s
}

// PinnedText returns the text of a scheduler so that it means the program's present content. Parse
// gave s for the text, and s is Pinned. The text of other schedulers stays as it is.
func (s Scheduler) PinnedText(text string) string {
	text = s.pinnedLayer(text)
	pin := paramSHA256.Name + "="
	if s.Program == nil || strings.Contains(text, ","+pin) || strings.Contains(text, ":"+pin) {
		return text
	}
	return With(text, pin+s.Program.SHA256)
}

// IsPinned reports whether a text is another, or may be what PinnedText made of it.
func IsPinned(pinned, text string) bool {
	unpinned := onLayer(pinned, func(layer string) string { file, _, _ := strings.Cut(layer, "#"); return file })
	return pinned == text || unpinned == text || strings.HasPrefix(unpinned, text+","+paramSHA256.Name+"=")
}

// InFolder returns the text of a scheduler for another folder to start in: a relative path of a
// program or of a layer is then below the given folder.
func InFolder(folder, text string) string {
	text = onLayer(text, func(layer string) string {
		if l, err := parseLayer(layer); err != nil || l.Path == "" || path.IsAbs(l.Path) {
			return layer
		}
		if layer = path.Join(folder, layer); !strings.Contains(layer, "/") {
			layer = "./" + layer
		}
		return layer
	})
	_, unnamed, _ := schedulers.CutName(text)
	name, rest, _ := strings.Cut(unnamed, ":")
	plain, _, _ := schedulers.CutLayer(name)
	en := registry[plain]
	items := strings.Split(rest, ",")
	for i, item := range items {
		if key, value, ok := en.parameter(i, item); ok && key == paramPath.Name && !path.IsAbs(value) && value != "" {
			items[i] = key + "=" + path.Join(folder, value)
			return strings.TrimSuffix(text, unnamed) + name + ":" + strings.Join(items, ",")
		}
	}
	return text
}
