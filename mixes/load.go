package mixes

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/caserun/caserun/userfile"
)

// maxFileBytes bounds a mix file. It has room for maxJobs command lines of 100 bytes.
const maxFileBytes = 1 << 20

// Load reads a mix file: YAML (.yaml, .yml) or a list of command lines (.wl). has reports whether
// the suite has a program beside SuitePrograms; it is called with names without a slash, and may
// be nil. Errors in the file's content are InputErrors.
func Load(path string, has func(program string) bool) (Mix, error) {
	parse, found := map[string]func(string, []byte, jobIndex, func(string) bool) (Mix, error){
		".yaml": parseYAML, ".yml": parseYAML, ".wl": parseWL,
	}[filepath.Ext(path)]
	if !found {
		return Mix{}, InputErrors{{File: path, Msg: fmt.Sprintf("unknown kind of mix file %q", filepath.Ext(path)),
			Remedy: "name it .yaml, .yml or .wl"}}
	}
	data, err := readLimited(path)
	if err != nil {
		return Mix{}, fmt.Errorf("load mix: %w", err)
	}
	if len(data) > maxFileBytes {
		return Mix{}, InputErrors{{File: path, Msg: fmt.Sprintf("more than %s", FormatBytes(maxFileBytes))}}
	}
	return parse(path, data, builtin().jobs, has)
}

func readLimited(path string) ([]byte, error) {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// checkText finds the first line that is not text: it is not UTF-8, or has control characters.
// Mixes do not need control characters, which would garble tables.
func checkText(file string, data []byte) error {
	for i, line := range bytes.Split(data, []byte("\n")) {
		column := 1
		for len(line) > 0 {
			r, size := utf8.DecodeRune(line)
			switch {
			case r == utf8.RuneError && size == 1:
				return InputErrors{{File: file, Line: i + 1, Column: column, Msg: "not UTF-8"}}
			case r < ' ' && r != '\t' && (r != '\r' || len(line) > 1), r == 0x7f:
				return InputErrors{{File: file, Line: i + 1, Column: column,
					Msg: fmt.Sprintf("control character %U", r), Remedy: "remove it"}}
			}
			line = line[size:]
			column++
		}
	}
	return nil
}

// baseName returns the default name of a file's mix.
func baseName(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

var byteOrderMark = []byte("\xef\xbb\xbf")
