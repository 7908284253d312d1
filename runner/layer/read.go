package layer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/schedulers/policies"
	"github.com/caserun/caserun/userfile/yamlfile"
)

var keys = []string{"name", "preload", "env", "start", "ready", "stop", "ready_within", "stop_within", "mps", "schedulers"}

// parse reads the text of a layer's file.
func parse(file string, text []byte) (*Layer, error) {
	l := &Layer{file: file, lines: map[string]int{}, ReadyWithin: readyWithin, StopWithin: stopWithin}
	err := yamlfile.Parse(text, "preload: ./liblimit.so", func(key string, at, value ast.Node) error {
		if !slices.Contains(keys, key) {
			return yamlfile.Fail(at, "unknown key %q: %s", key, near.OrKnown(key, keys))
		}
		l.lines[key] = yamlfile.Line(at)
		return l.set(key, value)
	})
	if err != nil {
		return nil, yamlfile.Name(file, err)
	}
	return l, l.complete()
}

// complete refuses what a layer cannot lack.
func (l *Layer) complete() error {
	for _, of := range []string{"ready", "stop", "ready_within", "stop_within"} {
		if line := l.lines[of]; line > 0 && l.Start == nil {
			return l.at(line, "%s is of a daemon: give start, the command of the daemon, too", of)
		}
	}
	if l.Name == "" {
		return fmt.Errorf("%s: the layer has no name: write name: and what its arms are called by, as hami in cg@hami", l.file)
	}
	if len(l.Preload)+len(l.Env)+len(l.Start) == 0 && l.MPS == nil {
		return fmt.Errorf("%s: the layer changes nothing: give preload, env, start or mps", l.file)
	}
	return nil
}

// set takes the value of a key.
func (l *Layer) set(key string, n ast.Node) (err error) {
	switch key {
	case "name":
		if l.Name, err = yamlfile.Scalar(n, key); err == nil {
			err = checkName(l.Name)
		}
	case "mps":
		b, is := n.(*ast.BoolNode)
		if !is {
			return yamlfile.Fail(n, "mps: want true or false, or leave it out: then MPS is on where the scheduler shares devices")
		}
		l.MPS = &b.Value
	case "env":
		return l.setEnv(n)
	case "preload":
		l.Preload, err = l.libraries(n)
	case "start":
		l.Start, err = l.command(n, key)
	case "ready":
		l.Ready, err = l.command(n, key)
	case "stop":
		l.Stop, err = l.command(n, key)
	case "ready_within":
		l.ReadyWithin, err = duration(n, key)
	case "stop_within":
		l.StopWithin, err = duration(n, key)
	case "schedulers":
		if l.Schedulers, err = list(n, key); err == nil {
			for _, s := range l.Schedulers {
				if _, unknown := policies.Lookup(s); unknown != nil {
					return yamlfile.Fail(n, "schedulers: %v", unknown)
				}
			}
		}
	}
	if err != nil && !yamlfile.IsPlaced(err) {
		err = yamlfile.Fail(n, "%s: %v", key, err)
	}
	return err
}

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_+-]{0,39}$`)

// checkName refuses names that an arm cannot have.
func checkName(text string) error {
	switch {
	case !name.MatchString(text):
		return fmt.Errorf("%q: want at most 40 letters, digits and any of _ + -, a letter or a digit first", text)
	case text == "mps" || text == "timeslice" || strings.HasPrefix(text, "mps-"):
		return fmt.Errorf("%s is a builtin layer: choose another name, such as my-%[1]s", text)
	}
	return nil
}

// taken are variables that the run sets.
func taken(name string) string {
	switch {
	case name == "LD_PRELOAD":
		return "write preload: and the library"
	case name == "CUDA_VISIBLE_DEVICES" || name == "CUDA_DEVICE_ORDER" || strings.HasPrefix(name, "CASE_"):
		return "the run sets it: leave it out"
	case name == "CUDA_MPS_PIPE_DIRECTORY" || name == "CUDA_MPS_LOG_DIRECTORY":
		return "the run has its own MPS: write mps: true, or leave it out"
	}
	return ""
}

func (l *Layer) setEnv(n ast.Node) error {
	values, is := n.(*ast.MappingNode)
	if !is {
		return yamlfile.Fail(n, "env: want keys and values")
	}
	return yamlfile.Each(values, func(name string, at, value ast.Node) error {
		text, err := yamlfile.Scalar(value, name)
		if err != nil {
			return err
		}
		if why := taken(name); why != "" {
			return yamlfile.Fail(at, "env: %s: %s", name, why)
		}
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(text, "\x00") {
			return yamlfile.Fail(at, "env: %q cannot be a variable: want NAME: VALUE", name)
		}
		if why := unknownField(text, slices.Concat(jobFields, deviceFields, runFields)...); why != "" {
			return yamlfile.Fail(value, "env: %s: %s", name, why)
		}
		added := Variable{name, text, yamlfile.Line(at)}
		l.Env = append(l.Env, added)
		if name == libraryPath {
			l.replace = &added
		}
		if l.bound == nil && has(text, append(deviceFields, "job.bytes")) {
			l.bound = &added
		}
		return nil
	})
}

// libraries are those of preload, which are there.
func (l *Layer) libraries(n ast.Node) (paths []string, err error) {
	items, err := list(n, "preload")
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		path, err := absolute(filepath.Dir(l.file), item)
		if err != nil {
			return nil, err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, fmt.Errorf("library %s: there is no such file: build it, or correct its path, which is from the folder of this file", item)
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return nil, fmt.Errorf("library %s: it is not a regular file: name a shared library", item)
		}
		if strings.ContainsAny(path, ": \t\n") {
			return nil, fmt.Errorf("library %s: LD_PRELOAD takes no path with a colon or a space: move it", path)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// command is a program with its arguments, as a list, or as text that is split at spaces.
func (l *Layer) command(n ast.Node, key string) (argv []string, err error) {
	if _, several := n.(*ast.SequenceNode); several {
		argv, err = list(n, key)
	} else {
		var text string
		text, err = yamlfile.Scalar(n, key)
		argv = strings.Fields(text)
	}
	if err != nil {
		return nil, err
	}
	if len(argv) == 0 {
		return nil, errors.New("no program: name one, with its arguments")
	}
	for _, a := range argv {
		if why := unknownField(a, runFields...); why != "" {
			return nil, errors.New(why)
		}
	}
	argv[0], err = program(filepath.Dir(l.file), argv[0])
	return argv, err
}

func duration(n ast.Node, key string) (time.Duration, error) {
	text, err := yamlfile.Scalar(n, key)
	if err != nil {
		return 0, err
	}
	d, err := input.Duration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q: want a time above 0, such as 10s", text)
	}
	return d, nil
}

// list are the texts of a list, or one text.
func list(n ast.Node, key string) (items []string, err error) {
	nodes := []ast.Node{n}
	if several, is := n.(*ast.SequenceNode); is {
		nodes = several.Values
	}
	for _, item := range nodes {
		text, err := yamlfile.Scalar(item, key)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, yamlfile.Fail(item, "%s: empty text: write something, or leave it out", key)
		}
		items = append(items, text)
	}
	if len(items) == 0 {
		return nil, yamlfile.Fail(n, "%s is empty: leave it out", key)
	}
	return items, nil
}
