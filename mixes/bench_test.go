package mixes

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkLoad reads mix files of many jobs: lines that repeat the catalog's commands, lines that all
// differ, and YAML.
func BenchmarkLoad(b *testing.B) {
	catalog := Jobs()
	for _, kind := range []struct {
		name, first string
		line        func(i int) string
	}{
		{"m.wl", "", func(i int) string { return catalog[i%len(catalog)].Command() }},
		{"differ.wl", "", func(i int) string { return fmt.Sprintf("needle %d 10", 16*(i+1)) }},
		{"m.yaml", "jobs:\n", func(i int) string { return "  - " + catalog[i%len(catalog)].Name }},
	} {
		for _, n := range []int{10_000, 100_000, 500_000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), kind.name)
				f, err := os.Create(path)
				if err != nil {
					b.Fatal(err)
				}
				w := bufio.NewWriter(f)
				fmt.Fprint(w, kind.first)
				for i := range n {
					fmt.Fprintln(w, kind.line(i))
				}
				if err := w.Flush(); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if m, err := Load(path, nil); err != nil || len(m.Jobs) != n {
						b.Fatalf("%d jobs, %v", len(m.Jobs), err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/job")
			})
		}
	}
}
