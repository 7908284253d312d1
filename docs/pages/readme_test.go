package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every document is two links away from README at most.
func TestDocumentsAreTwoLinksAway(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)#\s]+\.md)`)
	reached := map[string]bool{}
	from := []string{"README.md"}
	for range 2 {
		var next []string
		for _, page := range from {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range links.FindAllStringSubmatch(string(text), -1) {
				if to := filepath.Join(filepath.Dir(page), m[1]); !strings.Contains(m[1], "://") && !reached[to] {
					reached[to] = true
					next = append(next, to)
				}
			}
		}
		from = next
	}
	pages, err := filepath.Glob("docs/*/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		if !reached[page] {
			t.Errorf("%s: no link from README, or from a page that README links to", page)
		}
	}
}

// README's picture and sentence are of the sweep that README shows.
func TestReadmeShowsTheSweepOfItsPicture(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	alg3 := of(t, func() string { return over(compared([]string{"W7"}, "sa", "case-alg3")["case-alg3"]) })
	row := regexp.MustCompile(`(?m)^case-alg3 +0\.0 % +(\S+) `).FindSubmatch(text)
	if row == nil || string(row[1]) != alg3 {
		t.Errorf("README's comparison has the throughput %q of case-alg3 over sa, and its first sentence %s", row, alg3)
	}
	picture, err := os.ReadFile("docs/guide/w7.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"SIMULATED W7, 32 jobs", "sa, each job has a GPU of its own: 32 of 32 ok", "case-alg3, jobs share GPUs", "prefers-color-scheme: dark"} {
		if !strings.Contains(string(picture), part) {
			t.Errorf("no %q in the picture", part)
		}
	}
}
