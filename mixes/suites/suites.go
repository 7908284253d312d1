// Package suites knows the suites of programs that mixes name: where the programs are, which
// files they read, and what their exit statuses mean.
package suites

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/installation"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile"
)

// Builtin is the name of the suite that this repository builds.
const Builtin = "builtin"

// Build is who compiled the builtin suite. A suite of the user's own has one build only, which
// the user names.
type Build struct{ folder, target, without string }

var (
	// Plain is the build by the CUDA compiler.
	Plain = Build{"suite", "cuda", ""}
	// Compiled is the build by casecc, with CASE's compiler pass.
	Compiled = Build{"suite-casecc", "casecc", ", run without --probe static"}
)

// missing says how to make programs of the build.
func (b Build) missing() string {
	return fmt.Sprintf("%s%s, or name a build of your own with --suite DIR", installation.Make(b.target), b.without)
}

// Rebuild says how to make the suite's programs for devices of an architecture, such as 90 for
// compute capability 9.0.
func (s Suite) Rebuild(architecture int) string {
	if s.Name == Builtin {
		return fmt.Sprintf("%s on this machine, or with ARCH=sm_%d elsewhere", installation.Make(s.build.target), architecture)
	}
	return fmt.Sprintf("compile them with -arch=sm_%d", architecture)
}

// errNotBuilt is wrapped if a suite's programs do not exist.
var errNotBuilt = errors.New("programs not found")

// Suite finds the programs of jobs. The zero Suite has none.
type Suite struct {
	Name        string // Builtin or a directory
	Data        string // directory with the programs' input files
	build       Build
	root        string
	executables []string               // under root; the shortest path first
	facts       map[string]mixes.Facts // of programs, from the suite's own file
}

// Open finds a build of the builtin suite (installation.Find), or takes
// the user's directory. An error in the suite's own file (mixes.SuiteFile) is mixes.InputErrors.
func Open(name string, build Build, data string) (Suite, error) {
	data, err := filepath.Abs(data)
	if err != nil {
		return Suite{}, fmt.Errorf("open suite: data directory: %w", err)
	}
	s := Suite{Name: name, Data: data, build: build}
	if name != Builtin {
		if s.root, err = filepath.Abs(name); err != nil {
			return s, fmt.Errorf("open suite %s: %w", name, err)
		}
		if info, err := os.Stat(s.root); err != nil || !info.IsDir() {
			return s, fmt.Errorf("open suite: %s is not a directory; use --suite builtin or a directory of Rodinia or Darknet programs", name)
		}
		return s, s.read()
	}
	root, found, err := installation.Find("bin", build.folder, fs.FileInfo.IsDir)
	if err != nil {
		return s, fmt.Errorf("open suite: %w", err)
	}
	if found {
		s.root = root
		return s, s.read()
	}
	return s, fmt.Errorf("the builtin suite is not built in bin/%s (%w): %s", build.folder, errNotBuilt, build.missing())
}

// read finds the executables under the suite's directory, and reads the suite's own file if
// there is one.
func (s *Suite) read() error {
	walk := func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			s.executables = append(s.executables, path)
		}
		return nil
	}
	if err := filepath.WalkDir(s.root, walk); err != nil {
		return fmt.Errorf("find the programs of suite %s: %w", s.Name, err)
	}
	slices.SortStableFunc(s.executables, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	var err error
	own := filepath.Join(s.root, mixes.SuiteFile)
	s.facts, err = mixes.LoadSuite(own, s.Has)
	if err != nil && userfile.Absent(own) {
		return nil
	}
	return err
}

// Own returns the user's suite in the directory name. It has no programs if name is empty or names
// the builtin suite.
func Own(name, data string) (Suite, error) {
	if name == "" || name == Builtin {
		return Suite{}, nil
	}
	return Open(name, Plain, data)
}

// Has reports whether the suite has a program of this name.
func (s Suite) Has(program string) bool { return s.executable(program) != "" }

// executable returns the path of a program, or "". A program is known by its base name, and by
// its parent directory if the name has one ("srad_v1/srad"). The shortest path wins, so that a
// build is preferred to its backups in subdirectories.
func (s Suite) executable(program string) string {
	for _, path := range s.executables {
		if strings.HasSuffix(filepath.ToSlash(path), "/"+program) {
			return path
		}
	}
	return ""
}

// describe returns the jobs with what the suite's own file says of their programs. What a mix says of a job counts before it.
func (s Suite) describe(jobs []mixes.Job) []mixes.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		j := &jobs[i]
		if !j.OfSuite() {
			continue
		}
		facts := s.facts[j.Program]
		j.KnownFault = j.KnownFault || facts.KnownFault
		if j.Restartable == nil && j.Ranks <= 1 {
			j.Restartable = facts.Restartable
		}
	}
	return jobs
}

// Resolve opens the suite and resolves the jobs of a mix in it. The suite need not exist if no job has a
// program of a suite that is built.
func Resolve(name string, build Build, data string, m mixes.Mix) (programs, dirs []string, err error) {
	var s Suite
	if slices.ContainsFunc(m.Jobs, IsBuilt) {
		if s, err = Open(name, build, data); err != nil {
			return nil, nil, err
		}
	}
	return s.resolve(m)
}

// resolve returns each job's executable and working directory. The error has every reason why a job
// cannot run: a missing program, directory or input file. What is returned counts beside it, so that a job whose
// program has disappeared since a sweep began fails alone. A job without a directory works in
// the suite's data directory if its program is one that a build of the suite has and reads files, and in the caller's otherwise.
func (s Suite) resolve(m mixes.Mix) (programs, dirs []string, err error) {
	var problems []error
	type file struct {
		path string
		err  error
	}
	found := map[string]file{}
	type start struct{ program, dir, searchPath string }
	looked := map[start]bool{}
	missing := map[string]bool{}
	for number, j := range m.Jobs {
		problem := func(format string, args ...any) {
			where := m.Where(number)
			if where != "" {
				where += ": "
			}
			problems = append(problems, fmt.Errorf("%sjob %d (%s): %w", where, number, j.Name, fmt.Errorf(format, args...)))
		}
		dir := j.Dir
		if dir == "" && IsBuilt(j) && !j.ReadsNone() {
			dir = s.Data
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, nil, fmt.Errorf("working directory of job %s: %w", j.Name, err)
		}
		if info, err := os.Stat(dir); !missing[dir] && (err != nil || !info.IsDir()) {
			missing[dir] = true
			remedy := "name one that exists with dir in the mix"
			if j.Dir == "" {
				remedy = "caserun data makes it, with the suite's input files; or name one with --data"
			}
			problem("working directory of %s: %s is not a directory: %s", j.Command(), dir, remedy)
		}
		f, seen := found[j.Program]
		if !seen {
			f.path, f.err = s.find(j)
			found[j.Program] = f
		}
		if this := (start{j.Program, dir, searchPath(j)}); !looked[this] {
			looked[this] = true
			err := f.err
			if err == nil {
				err = userfile.Runnable(f.path, dir, this.searchPath)
			}
			if python := (start{searchPath: this.searchPath}); err == nil && j.OfTorch() && !looked[python] {
				looked[python] = true
				err = findTorch(this.searchPath)
			}
			if err != nil {
				of := ""
				if IsBuilt(j) {
					of = " of suite " + s.Name
				}
				problem("program %s%s: %w", j.Program, of, err)
			}
		}
		programs, dirs = append(programs, f.path), append(dirs, dir)
		for i, input := range inputsOf(j) {
			if !filepath.IsAbs(input) {
				input = filepath.Join(dir, input)
			}
			if err := checkInput(input, j.Stdin != "" && i == 0); err != nil && !missing[input] {
				missing[input] = true
				problem("input file of %s: %w; caserun data makes the suite's input files", j.Command(), err)
			}
		}
	}
	return programs, dirs, errors.Join(problems...)
}

// checkInput refuses an input file that is not there, that a program would wait for, or that has nothing in it. A program's
// standard input may be empty.
func checkInput(path string, stdin bool) error {
	if err := userfile.Check(path, userfile.Stdin); err != nil || stdin {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	return err
}

// find returns the path of a job's executable, which need not be there: the suite's program, or the user's own.
func (s Suite) find(j mixes.Job) (string, error) {
	switch {
	case j.OfTorch():
		return torchProgram(j.Program)
	case !j.OfSuite():
		return filepath.Abs(j.Program)
	}
	if path := s.executable(j.Program); path != "" {
		return path, nil
	}
	return filepath.Join(s.root, j.Program), fmt.Errorf("%w under %s: %s", errNotBuilt, s.root, s.build.missing())
}

// searchPath is the PATH with which a job starts.
func searchPath(j mixes.Job) string {
	path := os.Getenv("PATH")
	for _, kv := range j.Env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	return path
}
