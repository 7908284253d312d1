package suites

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/mixes/suites/graph"
	"github.com/caserun/caserun/mixes/suites/inputs"
)

// program has what caserun knows about a program of a suite.
type program struct {
	// readsFile says that the first argument names a file that the program reads, unless it
	// begins with "gen:".
	readsFile bool
	// files makes the files that the catalog's jobs of the program read, from a seed.
	files func(seed uint64) []File
}

// programs has the programs that read files.
var programs = map[string]program{
	"bfs":     {readsFile: true, files: graphFiles},
	"dwt2d":   {readsFile: true, files: pixelFiles},
	"darknet": {files: darknetFiles},
}

// The builtin suite's programs compare their results with a reference if they are told to, and say with
// this exit status that a result differs (benchmarks/rodinia/README.md). The PyTorch programs check theirs always.
const (
	verify      = "--verify"
	wrongStatus = 4
)

// Checks are what the exit statuses of jobs' programs say of their output. Programs of the builtin suite make a check
// with --verify only.
func Checks(suite string, jobs []mixes.Job) []mixes.Check {
	out := make([]mixes.Check, len(jobs))
	for i, j := range jobs {
		switch {
		case j.CheckStatus != 0:
			out[i] = mixes.Check{Failed: j.CheckStatus, Passes: true}
		case j.OfTorch():
			out[i] = mixes.Check{Failed: wrongStatus, Passes: true}
		case suite == Builtin && j.OfSuite():
			out[i] = mixes.Check{Failed: wrongStatus, Passes: slices.Contains(j.Args, verify)}
		}
	}
	return out
}

// Restartable reports whether a job does the same if it is stopped and started again, as its mix or suite says. Programs of
// the builtin suite and the PyTorch programs do, because they write nothing that they read. Several ranks are not started again.
func Restartable(suite string, j *mixes.Job) bool {
	switch {
	case j.Ranks > 1:
		return false
	case j.Restartable != nil:
		return *j.Restartable
	}
	return suite == Builtin && j.OfSuite() || j.OfTorch()
}

// inputsOf are the files without which a job cannot run. Its standard input is the first.
func inputsOf(j mixes.Job) []string {
	var files []string
	if j.Stdin != "" {
		files = append(files, j.Stdin)
	}
	if programs[j.Program].readsFile && len(j.Args) > 0 && !strings.HasPrefix(j.Args[0], "gen:") {
		files = append(files, j.Args[0])
	}
	return files
}

// File is an input file that is made.
type File struct {
	Path string // below the suite's data directory
	// Write writes the contents. It calls progress, if it is not nil, now and then with the
	// amount that is done.
	Write func(w io.Writer, progress func(done, total int)) error
}

// Files are the input files of the catalog's programs that jobs need. Equal seeds give equal
// contents.
func Files(jobs []mixes.Job, seed uint64) []File {
	var out []File
	for _, name := range []string{"dwt2d", "bfs", "darknet"} {
		if slices.ContainsFunc(jobs, func(j mixes.Job) bool { return j.Program == name }) {
			out = append(out, programs[name].files(seed)...)
		}
	}
	return out
}

const (
	graphNodes  = 32 << 20
	pixelsBytes = 3 << 20 // dwt2d repeats a file that is shorter than its image
)

func graphFiles(seed uint64) []File {
	return []File{{"graph32M.txt", func(w io.Writer, progress func(done, total int)) error {
		return graph.Writer{Progress: progress}.Write(w, graphNodes, seed)
	}}}
}

func pixelFiles(seed uint64) []File {
	return []File{{"rgb.bmp", func(w io.Writer, _ func(done, total int)) error {
		b := bufio.NewWriter(w)
		random := rand.New(rand.NewPCG(seed, 0))
		for range pixelsBytes {
			if err := b.WriteByte(byte(random.Uint32())); err != nil {
				return fmt.Errorf("write pixels: %w", err)
			}
		}
		return b.Flush()
	}}}
}

// darknetFiles are the files that Darknet's jobs read, except weights. The builtin program makes
// missing weights itself.
func darknetFiles(seed uint64) []File {
	var out []File
	for _, f := range inputs.Files(seed) {
		out = append(out, File{filepath.FromSlash(f.Path), func(w io.Writer, _ func(done, total int)) error {
			_, err := w.Write(f.Content)
			return err
		}})
	}
	return out
}
