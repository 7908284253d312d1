// Package installation finds what caserun needs beside its executable, the native parts and the
// builtin suites, and says how to get what is missing.
package installation

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Find returns the absolute path of a part that is called name and lies in the folder tree of the
// source tree. It looks in these places, in this order:
//   - beside the executable;
//   - in ../lib/caserun of the executable's folder, where make install puts it;
//   - in the source tree, if the executable is in the tree's bin;
//   - in the source tree, if caserun was started there.
//
// fits says whether what is there is the part. false: the part is nowhere.
func Find(tree, name string, fits func(fs.FileInfo) bool) (string, bool, error) {
	self, err := os.Executable()
	if err != nil {
		return "", false, err
	}
	bin := filepath.Dir(self)
	for _, path := range []string{filepath.Join(bin, name), filepath.Join(bin, "..", "lib", "caserun", name),
		filepath.Join(bin, "..", tree, name), filepath.Join(tree, name)} {
		if info, err := os.Stat(path); err == nil && fits(info) {
			path, err = filepath.Abs(path)
			return path, err == nil, err
		}
	}
	return "", false, nil
}

// sources are the folders of the source tree from which the Makefile's targets build.
var sources = map[string]string{"native": "native/probe", "cuda": "benchmarks/rodinia", "casecc": "native/pass"}

// Make says how to get the parts that a target of the Makefile builds: here, in the tree of this
// executable, or, if the executable was installed without the sources, elsewhere.
func Make(target string) string {
	if _, err := os.Stat(sources[target]); err == nil {
		return "run make " + target
	}
	self, err := os.Executable()
	if err != nil {
		return "run make " + target + " in caserun's source tree"
	}
	tree := filepath.Dir(filepath.Dir(self))
	if _, err := os.Stat(filepath.Join(tree, sources[target])); err == nil {
		return "run make -C " + tree + " " + target
	}
	return "run make " + target + " and make install in caserun's source tree, because " + self + " was installed without it"
}
