package publication

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/caserun/caserun/results/figures"
	"github.com/caserun/caserun/results/paper"
	"github.com/caserun/caserun/results/report"
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

// WriteFigures writes figures in every format, and returns their paths.
func WriteFigures(ctx context.Context, drawn []paper.Figure, dir string, replace bool) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write figures: %w", err)
	}
	for _, f := range drawn {
		for _, format := range figures.Formats() {
			path := filepath.Join(dir, f.ID+"."+string(format))
			if err := report.CheckChosen(path); err != nil {
				return nil, err
			}
			content, err := figures.Draw(f, format)
			if err != nil {
				return nil, err
			}
			if err := report.WriteFile(ctx, path, replace, func(w io.Writer) error { _, err := w.Write(content); return err }); err != nil {
				return nil, err
			}
		}
	}
	return FigurePaths(drawn, dir), nil
}
