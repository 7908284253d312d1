// Package installation finds what caserun needs beside its executable: the native parts and the
// builtin suites.
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
