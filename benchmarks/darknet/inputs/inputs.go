// Package inputs holds what the Darknet jobs of CASE's Table 5 read: the networks'
// descriptions, and lists of images. The networks' weights are not here: the builtin
// program makes seeded ones where a file is missing.
package inputs

import (
	"embed"
	"fmt"
	"strings"
)

// cfg has the networks (.cfg) and the data sets (.data); benchmarks/darknet/README.md
// has their sources.
//
//go:embed cfg
var cfg embed.FS

// Images in the two lists, and their size. The paper publishes no counts: with these, and
// the -len and max_batches of the other two jobs, a task lasts about 5 s alone on an H200.
const (
	LargeImages  = 1200 // images-large.txt, for predict
	MediumImages = 3300 // images-medium.txt, for detect

	largeWidth, largeHeight   = 768, 576
	mediumWidth, mediumHeight = 500, 375
)

// File is an input file.
type File struct {
	Path    string // relative to the data directory, with slashes, as the jobs name it
	Content []byte
}

// Files are all input files; seed is of the images.
func Files(seed uint64) []File {
	files := []File{
		{"images-large.txt", images(LargeImages, largeWidth, largeHeight, seed)},
		{"images-medium.txt", images(MediumImages, mediumWidth, mediumHeight, seed)},
	}
	for _, at := range []string{ // where Table 5 has them
		"imagenet1k.data", "darknet53_448.cfg", "cfg/yolov3-tiny.cfg", "cfg/rnn.cfg", "cfg/cifar.data", "cfg/cifar_small.cfg",
	} {
		content, err := cfg.ReadFile("cfg/" + strings.TrimPrefix(at, "cfg/"))
		if err != nil {
			panic(err) // a fault of the build, which every test of the package meets
		}
		files = append(files, File{at, content})
	}
	return files
}

// images is a list of n images that the builtin program makes from seeds.
func images(n, width, height int, seed uint64) []byte {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "gen:%dx%d:%d\n", width, height, seed+uint64(i))
	}
	return []byte(list.String())
}
