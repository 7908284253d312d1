package publication

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/userfile/output"
)

// FigurePaths are the files that WriteFigures writes.
func FigurePaths(drawn []paper.Figure, dir string) []string {
	var out []string
	for _, f := range drawn {
		for _, format := range figures.Formats() {
			out = append(out, filepath.Join(dir, f.ID+"."+string(format)))
		}
	}
	return out
}

// WriteFigures writes figures in every format, and returns their paths. They get their names together.
func WriteFigures(ctx context.Context, drawn []paper.Figure, dir string, replace bool) (_ []string, err error) {
	if err := output.MakeDirectory(dir); err != nil {
		return nil, err
	}
	for _, path := range FigurePaths(drawn, dir) {
		if err := output.Check(path, output.Chosen(replace)); err != nil {
			return nil, err
		}
	}
	set := output.NewSet(ctx, output.Chosen(replace))
	defer func() { err = errors.Join(err, set.Discard()) }()
	for _, f := range drawn {
		for _, format := range figures.Formats() {
			content, err := figures.Draw(f, format)
			if err != nil {
				return nil, err
			}
			path := filepath.Join(dir, f.ID+"."+string(format))
			if err := set.Write(path, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
				return nil, err
			}
		}
	}
	return FigurePaths(drawn, dir), set.Commit()
}
