package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	pathpkg "path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/native/nativetest"
)

const module = "github.com/caserun/caserun/"

// layers lists the packages from the top down. A package imports only packages of layers below
// its own (docs/design/architecture.md).
var layers = [][]string{
	{"cmd/caserun"},
	{"cmd/caserun/config"},
	{"runner/slurmsweep", "runner/display", "runner/pages", "runner/policytest", "runner/keeping", "runner/placing"},
	{"runner/sweep", "runner/doctor", "runner/replay", "runner/member"},
	{"runner/nodes"},
	{"runner/remote"},
	{"runner/live", "runner/sim"},
	{"runner/harness", "runner/control", "results/export"},
	{"results/html", "results/bundle", "results/selection", "results/publication", "results/perfetto"},
	{"results/report", "results/figures"},
	{"results/trend", "results/paper", "runner/history", "runner/probe", "runner/dispatch"},
	{"results/regress", "runner/external", "runner/layer", "schedulers/schedtest"},
	{"results/store", "runner", "schedulers/cluster", "mixes/suites", "runner/runlog"},
	{"runner/blame", "runner/probe/wire", "runner/schedshm", "runner/mps", "runner/ballast", "runner/checkpoint", "runner/swaparea", "schedulers/policies", "collectors/nvml", "collectors/kernels", "runner/profiles", "mixes/suites/graph", "runner/cudaelf"},
	{"schedulers/engine", "schedulers/plan", "runner/surroundings", "mixes/suites/inputs", "mixes/traces"},
	{"mixes", "results", "results/stats", "runner/child", "runner/scratch", "runner/slurm", "runner/slurmstep", "userfile/output"},
	{"schedulers", "schedulers/placement", "internal/near", "userfile", "userfile/csvfile", "userfile/network", "userfile/strictjson", "userfile/yamlfile", "installation"},
	{"internal/size"},
	{"internal/input"},
}

// topLevel lists the directories of the repository's root that have Go packages, from the top
// down. benchmarks has programs and their data.
var topLevel = []string{"cmd", "runner", "collectors", "results", "mixes", "schedulers", "installation", "userfile", "internal"}

// testOnly packages serve tests and documents. Only tests, and other such packages, may import them.
var testOnly = []string{"runner/profiles/profilestest", "docs/pages", "internal/chance", "native/ivm/ivmtest", "native/lazy/lazytest", "native/nativetest", "results/paper/papertest", "results/store/disktest", "runner/probe/probetest", "runner/slurm/slurmtest", "schedulers/engine/enginetest"}

// soleImporters names the only package that may import each heavy dependency.
var soleImporters = map[string]string{
	"github.com/NVIDIA/go-nvml":          "collectors/nvml",
	"github.com/mattn/go-sqlite3":        "results/store",
	"github.com/pressly/goose":           "results/store",
	"github.com/jedib0t/go-pretty":       "results/report",
	"github.com/ianlancetaylor/demangle": "collectors/kernels",
	"github.com/parquet-go/parquet-go":   "results/report",
	"gonum.org/v1/plot":                  "results/figures",
	"google.golang.org/protobuf":         "results/perfetto",
	"golang.org/x/perf":                  "results/stats",
	"golang.org/x/text":                  "internal/input",
	"github.com/aclements/go-moremath":   "results/stats",
	"github.com/spf13/viper":             "cmd/caserun/config",
	"github.com/spf13/cobra":             "cmd/caserun",
	"github.com/go-viper/mapstructure":   "cmd/caserun/config",
}

// pure packages compute only: they do not use a clock, a log or the system. Each maps to the
// imports that it must not have.
var pure = map[string][]string{
	"schedulers":           {"os", "log", "log/slog", "context", "net", "syscall", "math/rand", "math/rand/v2"},
	"schedulers/engine":    {"os", "log", "log/slog", "context", "net", "syscall", "math/rand", "math/rand/v2"},
	"schedulers/policies":  {"os", "log", "log/slog", "context", "net", "syscall", "math/rand", "math/rand/v2"},
	"schedulers/cluster":   {"os", "log", "log/slog", "context", "net", "syscall", "math/rand", "math/rand/v2"},
	"schedulers/plan":      {"os", "log", "log/slog", "context", "net", "syscall", "math/rand"}, // math/rand/v2 with a seed is pure
	"runner/dispatch":      {"os", "log", "log/slog", "context", "net", "syscall", "math/rand", "math/rand/v2"},
	"runner/blame":         {"os", "log", "log/slog", "context", "net", "syscall", "math/rand", "math/rand/v2"},
	"results/paper":        {"os", "io", "log", "log/slog", "context", "net", "database/sql"},
	"results/trend":        {"os", "io", "log", "log/slog", "context", "net", "database/sql"},
	"results/regress":      {"os", "io", "log", "log/slog", "context", "net", "database/sql"},
	"results/stats":        {"os", "io", "log", "log/slog", "context", "net", "database/sql"},
	"results":              {"os", "io", "log", "log/slog", "context", "net", "database/sql"},
	"schedulers/placement": {"os", "log", "log/slog", "context", "net", "syscall", "math/rand"},
}

// clock has the functions of package time that read a clock or wait.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func TestDependenciesPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	level := map[string]int{}
	for i, layer := range layers {
		for _, p := range layer {
			level[p] = i
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], module)
		seen[from] = true
		at, known := level[from]
		if !known && !slices.Contains(testOnly, from) {
			t.Errorf("package %s has no layer: give it one here and in docs/design/architecture.md", from)
			continue
		}
		for _, imported := range fields[1:] {
			to, ours := strings.CutPrefix(imported, module)
			switch {
			case ours && known && slices.Contains(testOnly, to):
				t.Errorf("%s imports %s, which serves tests only", from, to)
			case ours && known && level[to] <= at:
				t.Errorf("%s imports %s, which is not below it", from, to)
			case ours && known && slices.Index(topLevel, top(to)) < slices.Index(topLevel, top(from)):
				t.Errorf("%s imports %s: %s is not below %s", from, to, top(to), top(from))
			case slices.Contains(pure[from], imported):
				t.Errorf("%s imports %s: it must stay pure", from, imported)
			}
			for dependency, sole := range soleImporters {
				if strings.HasPrefix(imported, dependency) && from != sole {
					t.Errorf("%s imports %s, which only %s may import", from, imported, sole)
				}
			}
		}
	}
	for p := range level {
		if !seen[p] {
			t.Errorf("package %s is in layers but not in the module", p)
		}
		if !slices.Contains(topLevel, top(p)) {
			t.Errorf("package %s is in %s, which has no Go packages of the product", p, top(p))
		}
	}
}

// top is the directory of the root that a package is in.
func top(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

func TestPurePackagesReadNoClock(t *testing.T) {
	for p := range pure {
		files, err := filepath.Glob(filepath.Join("../..", p, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", p, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, s.Sel.Name) {
					t.Errorf("%s: time.%s: time is an argument here", set.Position(s.Pos()), s.Sel.Name)
				}
				return true
			})
		}
	}
}

// shared names the files of this package that verbs share: settings, flags, their completion, help,
// and printing. Every other file belongs to main or to one verb, whose name its name begins with.
var shared = []string{"settings.go", "flags.go", "completion.go", "help.go", "print.go"}

// A verb's files use only their own declarations and declarations of shared files, main.go and
// root.go. Flags and printing of several verbs are in a shared file, and other code of several
// verbs is in a package. This package therefore exports nothing. main.go has the types of errors,
// and root.go adds the verbs.
func TestVerbsShareOnlyFlagsAndPrinting(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	declaredIn := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
		for declared := range file.Scope.Objects {
			declaredIn[declared] = name
			if ast.IsExported(declared) {
				t.Errorf("%s: %s is exported by a program", name, declared)
			}
		}
	}
	for _, name := range append(slices.Clone(shared), "main.go", "root.go") {
		if files[name] == nil {
			t.Errorf("%s is named here but does not exist", name)
		}
	}
	for name, file := range files {
		if name == "root.go" {
			continue
		}
		for _, used := range file.Unresolved {
			from := declaredIn[used.Name]
			common := from == "main.go" || from == "root.go" || slices.Contains(shared, from)
			if from != "" && verbOf(from) != verbOf(name) && !common {
				t.Errorf("%s uses %s of %s: move it to a package, or to %s if it is flags or printing", name, used.Name, from, strings.Join(shared, ", "))
			}
		}
	}
}

// The program's package is flags, printing and exit statuses. What is complex, or long, is in packages.
func TestCommandsAreSmall(t *testing.T) {
	const mostLines, mostComplex = 4940, 12
	names, err := filepath.Glob("*.go")
	configs, bad := filepath.Glob("config/*.go")
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range append(names, configs...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(name, "config/") {
			lines += strings.Count(string(text), "\n")
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && complexity(f) > mostComplex {
				t.Errorf("%s: %s has a complexity of %d, want %d at most: split it, or move what is logic to a package", name, f.Name.Name, complexity(f), mostComplex)
			}
		}
	}
	if lines > mostLines {
		t.Errorf("the program's own package has %d lines, want %d at most: move what is not flags, printing or exit statuses to packages", lines, mostLines)
	}
}

// complexity is how many ways lead through a function, as gocyclo counts them.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// verbOf is the verb of a file, such as sweep of sweep.go and of sweep_status.go.
func verbOf(file string) string {
	verb, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
	return verb
}

// These hold three rows of the table "Where a change goes" in docs/design/architecture.md.

// A policy is one file and its line in the registry.
func TestAPolicyIsOneFile(t *testing.T) {
	dir := "../../schedulers/policies"
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	registry, err := os.ReadFile(filepath.Join(dir, "registry.go"))
	if err != nil {
		t.Fatal(err)
	}
	policies := 0
	for _, path := range names {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || slices.Contains([]string{"registry.go", "parts.go", "bursts.go", "linger.go", "balance.go", "named.go", "scan.go", "layer.go"}, name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		entries := 0
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			if l, ok := spec.Values[0].(*ast.CompositeLit); ok {
				if of, ok := l.Type.(*ast.Ident); ok && of.Name == "entry" {
					entries++
					if !strings.Contains(string(registry), "\t"+spec.Names[0].Name+".Name: ") {
						t.Errorf("%s: %s is not in the registry", name, spec.Names[0].Name)
					}
				}
			}
			return true
		})
		if entries != 1 {
			t.Errorf("%s has %d policies, want 1", name, entries)
		}
		policies += entries
	}
	if lines := strings.Count(string(registry), ".Name: "); policies == 0 || lines < policies {
		t.Errorf("%d policies in files, %d lines in the registry", policies, lines)
	}
}

// A function of CUDA that the lazy runtime overrides is defined in one file of a room.
func TestAnInterceptedCallIsInOneFile(t *testing.T) {
	dir := "../../native/lazy"
	names, err := filepath.Glob(filepath.Join(dir, "*/*.cc"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	source := map[string]string{}
	for _, path := range names {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source[path] = string(text)
	}
	own := 0
	for call, kind := range nativetest.Calls(t) {
		if kind != "own" {
			continue
		}
		own++
		// A body follows, or a macro makes it.
		definition := regexp.MustCompile(`(?m)^(?:extern "C" )?\w+ \**` + call + `\([^;{]*\{|^[A-Z0-9_]+\((?:\w+, )?` + call + `[,)]`)
		var in []string
		for name, text := range source {
			if definition.MatchString(text) {
				in = append(in, name)
			}
		}
		if len(in) != 1 {
			t.Errorf("%s is defined in %v, want one file", call, in)
		}
	}
	if own < 150 {
		t.Errorf("%d calls are overridden", own)
	}
}

// A kind of event is a constant of results/event.go and the place that records it.
func TestEveryKindOfEventIsRecorded(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../results/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	err = filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "event.go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, use := range regexp.MustCompile(`\b(Event[A-Z]\w*)\b`).FindAllStringSubmatch(string(text), -1) {
			recorded[use[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for name := range file.Scope.Objects {
		if strings.HasPrefix(name, "Event") && name != "Event" && name != "EventKind" {
			kinds++
			if !recorded[name] {
				t.Errorf("nobody records results.%s", name)
			}
		}
	}
	if kinds == 0 {
		t.Error("results/event.go has no kinds of events")
	}
}

// numberedBoxes are those of the map in docs/design/architecture.md. Each has a heading and a table.
const numberedBoxes = 7

// The tables in docs/design/architecture.md must have every package with all its imports, and no box may
// import one with a lower number.
func TestTheArchitecturePageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/design/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	box, boxes := 0, map[string]int{} // the number of each package's box
	for line := range strings.Lines(string(page)) {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			box++
			if number := strings.TrimSpace(strings.SplitN(heading, ".", 2)[0]); box <= numberedBoxes && number != strconv.Itoa(box) {
				t.Errorf("heading %q, want box %d", heading, box)
			}
		}
		cells := strings.Split(line, "|")
		if len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			p := strings.Trim(cells[1], " `")
			documented[p], boxes[p] = strings.TrimSpace(cells[3]), box
		}
	}
	if box != numberedBoxes+2 {
		t.Errorf("the tables have %d headings, want %d boxes, the packages below them, and those for tests", box, numberedBoxes)
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(strings.ReplaceAll(line, module, "/"))
		var ours []string
		for _, imported := range fields[1:] {
			if p, ok := strings.CutPrefix(imported, "/"); ok {
				ours = append(ours, p)
			}
		}
		p := strings.TrimPrefix(fields[0], "/")
		for _, imported := range ours {
			if boxes[imported] < boxes[p] && !slices.Contains(testOnly, p) {
				t.Errorf("%s of box %d imports %s of box %d", p, boxes[p], imported, boxes[imported])
			}
		}
		if got, ok := documented[p]; !ok {
			t.Errorf("package %s is not in the tables", p)
		} else if diff := cmp.Diff(strings.Join(ours, ", "), got); diff != "" {
			t.Errorf("imports of %s, page (+) and go list (-):\n%s", p, diff)
		}
	}
}

// Tests that draw do so from seeds of package chance, so that a rare defect is met in the soak and not
// by whoever changes something else.
func TestTestsDrawFromSeedsOfChance(t *testing.T) {
	checks := 0
	for path, file := range goFiles(t, true) {
		if strings.HasPrefix(path, "internal/chance/") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch x, _ := s.X.(*ast.Ident); {
			case x == nil:
			case x.Name == "rapid" && (s.Sel.Name == "Check" || s.Sel.Name == "MakeCheck"):
				t.Errorf("%s calls rapid.%s: call chance.Check", path, s.Sel.Name)
			case x.Name == "chance" && s.Sel.Name == "Check":
				checks++
			}
			return true
		})
	}
	if checks == 0 {
		t.Error("no test calls chance.Check: this test does not see them")
	}
}

// goFiles are the module's Go files, tests or the others, by path from the module's root.
func goFiles(t *testing.T, tests bool) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir("../..", func(path string, e os.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case e.IsDir() && (name == "testdata" || name[0] == '.' && name != ".."):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") != tests:
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		files[strings.TrimPrefix(filepath.ToSlash(path), "../../")] = file
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// internal/raced.txt names the packages that make test-full runs under the race detector.
const racedList = "../../internal/raced.txt"

// A package is run under the race detector if goroutines can meet in it: it has a go statement, makes,
// reads or writes a channel, or uses a lock, a wait group, a sync.Map, a sync.Pool or sync/atomic. In
// other packages the detector has nothing to find.
func TestTheListOfRacedPackagesIsTrue(t *testing.T) {
	text, err := os.ReadFile(racedList)
	if err != nil {
		t.Fatal(err)
	}
	tests := goFiles(t, true)
	raced := map[string]bool{}
	var listed []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		raced[fields[0]] = true
		listed = append(listed, fields[0])
		for _, f := range fields[1:] {
			checkChoice(t, tests, fields[0], f)
		}
	}
	if !slices.IsSorted(listed) || len(listed) != len(raced) {
		t.Errorf("%s is not sorted, or names a package twice", racedList)
	}
	why := map[string]string{}
	for path, file := range goFiles(t, false) {
		if has := concurrency(file); has != "" {
			why[pathpkg.Dir(path)] = pathpkg.Base(path) + " has " + has
		}
	}
	for p, reason := range why {
		if !raced[p] && !slices.Contains(testOnly, p) {
			t.Errorf("%s: %s. Add the package to %s", p, reason, racedList)
		}
	}
	for p := range raced {
		if why[p] == "" {
			t.Errorf("%s has nothing that runs at the same time: take it off %s", p, racedList)
		}
	}
}

// checkChoice fails if a flag of go test does not choose tests of the package, or names some that there are not.
func checkChoice(t *testing.T, files map[string]*ast.File, p, choice string) {
	t.Helper()
	flag, pattern, _ := strings.Cut(choice, "=")
	if flag != "-run" && flag != "-skip" {
		t.Errorf("%s: %s of %s: want -run=PATTERN or -skip=PATTERN", racedList, choice, p)
	}
	var tests []string
	for path, file := range files {
		if pathpkg.Dir(path) != p {
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	begin, alternatives, grouped := strings.Cut(pattern, "(")
	if !grouped {
		begin, alternatives = "", pattern
	}
	for one := range strings.SplitSeq(strings.TrimSuffix(alternatives, ")"), "|") {
		re, err := regexp.Compile(begin + one)
		if err != nil || !slices.ContainsFunc(tests, re.MatchString) {
			t.Errorf("%s: %s of %s: no test has %s%s (%v)", racedList, choice, p, begin, one, err)
		}
	}
}

// concurrency is what a file has that makes its package one to run under the race detector.
func concurrency(file *ast.File) (has string) {
	imports := map[string]string{} // of the packages that are looked for, by the name they have here
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := pathpkg.Base(path)
		if i.Name != nil {
			name = i.Name.Name
		}
		if path == "sync" {
			imports[name] = path
		}
		if path == "sync/atomic" {
			return "sync/atomic"
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			has = "a go statement"
		case *ast.SendStmt, *ast.SelectStmt:
			has = "a use of a channel"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				has = "a use of a channel"
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "make" {
				if _, ok := n.Args[0].(*ast.ChanType); ok {
					has = "a channel"
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] == "sync" && slices.Contains([]string{"Mutex", "RWMutex", "WaitGroup", "Cond", "NewCond", "Map", "Pool"}, n.Sel.Name) {
				has = "sync." + n.Sel.Name
			}
		}
		return true
	})
	return has
}
