package mixes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
)

// readInPieces is parseYAML with pieces of another size.
func readInPieces(data []byte, size int) (Mix, int, error) {
	in := newLines("f", bytes.NewReader(data))
	r := &yamlReader{file: in.file, jobs: builtin().jobs, has: suiteOf("hotspot", "gaussian"), wants: "jobs: and a list of jobs"}
	m := mixReader{yamlReader: r, mostJobs: MaxJobs, mix: Mix{Name: baseName(in.file), Source: in.file}}
	pieces := newPieces(in)
	pieces.size = size
	n := 0
	out, err := readYAML(r, pieces, func(body ast.Node) Mix { n++; return m.add(body) })
	return out, n, err
}

var columns = regexp.MustCompile(`(?m)^(f:[0-9]+):[0-9]+:`)

// withoutColumns is an error's text. The parser's column of a value that is not there depends on what
// follows.
func withoutColumns(err error) string { return columns.ReplaceAllString(fmt.Sprint(err), "$1:") }

// The pieces of a file make the mix that the file makes as a whole, and their errors have the same places.
func TestPiecesMakeTheWhole(t *testing.T) {
	var files []string
	for _, pattern := range []string{"catalog/*.yaml", "testdata/*.yaml", "testdata/bad/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	texts := []string{
		"jobs: # of tonight\n\n# the first\n- needle-32768\n-   job: needle-16384\n    count: 3\n\n  # more\n-\n  program: ./a\n  args:\n  - x\n  - y\nname: last\ndescription: |\n  - text\n  - more\nratio: 3:1\n",
		"name: a\njobs:\n  - needle-32768\n  - needle-16384\nname: b\n",
		"jobs:\n  - needle-32768\n  - needle-16384\njobs:\n  - needle-32768\n",
		"jobs:\n  - needle-32768\n  - job: needle-16384\n    group: 2\n  - job: needle-16384\n    group: 1\n  - wrong-name\n",
		"description: >\n  jobs:\n   - none\njobs:\r\n  - {program: ./a, args: [a,\r\n    b], memory: 3GiB}\r\n  - needle-16384\r\n",
		"jobs: [needle-32768,\n  needle-16384]\n",
		"jobs:\n  - needle-32768\n  - needle-16384\n---\njobs: []\n",
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	most := 0
	for _, text := range texts {
		want, _, wantErr := readInPieces([]byte(text), pieceBytes)
		got, n, err := readInPieces([]byte(text), 1)
		most = max(most, n)
		if withoutColumns(err) != withoutColumns(wantErr) {
			t.Errorf("%.60q: error\n%v\nwant\n%v", text, err, wantErr)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.60q: got %+v, want %+v", text, got, want)
		}
	}
	if most < 10 {
		t.Errorf("no file had more than %d pieces", most)
	}
}

func TestPiecesAreBounded(t *testing.T) {
	big := "name: x\n" + strings.Repeat("# nothing\n", maxPieceBytes/10)
	_, _, err := readInPieces([]byte(big), pieceBytes)
	if want := fmt.Sprintf("f:%d: more than 4MiB before a line that begins a job; begin each job on a line of its own: - job", 1+maxPieceBytes/10); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	text := "jobs:\n" + strings.Repeat("  - needle-16384\n", 3*pieceBytes/17) + "  - job: none\n"
	_, _, err = readInPieces([]byte(text), pieceBytes)
	var all InputErrors
	if !errors.As(err, &all) || len(all) != 1 || all[0].Line != strings.Count(text, "\n") || all[0].Column != 10 {
		t.Errorf("error %v, want one in the last line", err)
	}
	m, n, err := readInPieces([]byte(strings.TrimSuffix(text, "  - job: none\n")), pieceBytes)
	if err != nil || n < 3 || len(m.Jobs) != 3*pieceBytes/17 || !slices.EqualFunc(m.Jobs[:1], m.Jobs[len(m.Jobs)-1:], Job.equal) {
		t.Errorf("%d jobs of %d pieces, %v", len(m.Jobs), n, err)
	}
}
