package live

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile"
)

// BuiltinSuite is the name of the suite that this repository builds.
const BuiltinSuite = "builtin"

// ErrNotBuilt is wrapped when a suite's programs are not there.
var ErrNotBuilt = errors.New("programs not found")

// Suite finds the programs of jobs.
type Suite struct {
	Name        string // BuiltinSuite or a directory
	Data        string // directory with the programs' input files
	root        string
	executables []string // under root; the shortest path first
	faulty      []string // programs that the suite's own file says fault
}

// OpenSuite finds the builtin suite beside the running executable or under
// ./bin, or takes the user's directory. What is wrong with the suite's own file
// (mixes.SuiteFile) is mixes.InputErrors.
func OpenSuite(name, data string) (Suite, error) {
	data, err := filepath.Abs(data)
	if err != nil {
		return Suite{}, fmt.Errorf("open suite: data directory: %w", err)
	}
	s := Suite{Name: name, Data: data}
	if name != BuiltinSuite {
		if s.root, err = filepath.Abs(name); err != nil {
			return s, fmt.Errorf("open suite %s: %w", name, err)
		}
		if info, err := os.Stat(s.root); err != nil || !info.IsDir() {
			return s, fmt.Errorf("open suite: %s is not a directory; use --suite builtin or a directory of Rodinia or Darknet programs", name)
		}
		return s, s.read()
	}
	self, err := os.Executable()
	if err != nil {
		return s, fmt.Errorf("open suite: %w", err)
	}
	for _, root := range []string{filepath.Join(filepath.Dir(self), "suite"), filepath.Join("bin", "suite")} {
		if info, err := os.Stat(root); err == nil && info.IsDir() {
			if s.root, err = filepath.Abs(root); err != nil {
				return s, fmt.Errorf("open suite: %w", err)
			}
			return s, s.read()
		}
	}
	return s, fmt.Errorf("the builtin suite is not built (%w): run make cuda, or name a build of your own with --suite DIR", ErrNotBuilt)
}

// read finds the executables under the suite's directory and what its own file, where
// there is one, says of them.
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
	s.faulty, err = mixes.LoadSuite(filepath.Join(s.root, mixes.SuiteFile), s.Has)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Has reports whether the suite has a program of this name.
func (s Suite) Has(program string) bool { return s.executable(program) != "" }

// executable is the path of a program by base name, and by parent directory too
// where the name has one ("srad_v1/srad"), or "". The shortest path wins, so that a
// build in place goes before its backups.
func (s Suite) executable(program string) string {
	for _, path := range s.executables {
		if strings.HasSuffix(filepath.ToSlash(path), "/"+program) {
			return path
		}
	}
	return ""
}

// Describe returns the jobs with what the suite's own file says of their programs.
func (s Suite) Describe(jobs []mixes.Job) []mixes.Job {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if jobs[i].OfSuite() && slices.Contains(s.faulty, jobs[i].Program) {
			jobs[i].KnownFault = true
		}
	}
	return jobs
}

// Resolve returns each job's executable and working directory, or every reason
// why one cannot run: a missing program, directory or input file. A job that names
// no directory works in the suite's data directory if its program is one of the
// suite's, and else where the caller does.
func (s Suite) Resolve(jobs []mixes.Job) (programs, dirs []string, err error) {
	found := map[string]string{}
	var problems []error
	missing := map[string]bool{}
	for _, j := range jobs {
		dir := j.Dir
		if dir == "" && j.OfSuite() {
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
			problems = append(problems, fmt.Errorf("working directory of %s: %s is no directory: %s", j.Command(), dir, remedy))
		}
		path, seen := found[j.Program]
		if !seen {
			if path, err = s.find(j); err != nil {
				problems = append(problems, err)
			}
			found[j.Program] = path
		}
		programs, dirs = append(programs, path), append(dirs, dir)
		for i, input := range inputs(j) {
			if !filepath.IsAbs(input) {
				input = filepath.Join(dir, input)
			}
			_, err := os.Stat(input)
			if err == nil && j.Stdin != "" && i == 0 {
				err = userfile.Check(input, stdinKinds)
			}
			if err != nil && !missing[input] {
				missing[input] = true
				problems = append(problems, fmt.Errorf("input file of %s: %w; caserun data makes the suite's input files", j.Command(), err))
			}
		}
	}
	return programs, dirs, errors.Join(problems...)
}

// find is the executable of a job: of the suite, or the user's own by its path.
func (s Suite) find(j mixes.Job) (string, error) {
	if !j.OfSuite() {
		path, err := exec.LookPath(j.Program)
		if err == nil {
			err = userfile.Check(path, 0)
		}
		if err != nil {
			return "", fmt.Errorf("program %s: %w", j.Program, err)
		}
		return filepath.Abs(path)
	}
	if path := s.executable(j.Program); path != "" {
		return path, nil
	}
	return "", fmt.Errorf("program %s of suite %s: %w under %s: run make cuda, or name a build of your own with --suite DIR",
		j.Program, s.Name, ErrNotBuilt, s.root)
}

// stdinKinds are what a job can have as its standard input. To open a FIFO would wait
// for whoever writes to it.
const stdinKinds = userfile.Pipes | userfile.Devices

// inputs are the files that a job cannot run without: its standard input first, and
// the first argument of the suite programs that read one.
func inputs(j mixes.Job) []string {
	var files []string
	if j.Stdin != "" {
		files = append(files, j.Stdin)
	}
	if (j.Program == "bfs" || j.Program == "dwt2d") && len(j.Args) > 0 && !strings.HasPrefix(j.Args[0], "gen:") {
		files = append(files, j.Args[0])
	}
	return files
}

// FindBallast finds the program that holds device memory, beside the running
// executable or where make native leaves it.
func FindBallast() (string, error) { return findNative("ballast program", "ballast", "ballast") }

// findNative finds a file that make native built, beside the running executable
// or in its directory under native.
func findNative(what, dir, file string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the %s: %w", what, err)
	}
	for _, path := range []string{filepath.Join(filepath.Dir(self), file), filepath.Join("native", dir, file)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("the %s is not built (%w): run make native", what, ErrNotBuilt)
}
