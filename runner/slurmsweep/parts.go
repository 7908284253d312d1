package slurmsweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// partFile is a published file. Of two files of one number, the later one is that of the later attempt, or of
// the later publication of one attempt. Clocks do not matter.
type partFile struct {
	Number   int // of the part
	Attempt  int // how often the work on the part was begun anew before
	Sequence int // of the publication among those of the attempt, from 1
	Path     string
	sum      string // of the file's content
}

// errBroken is that a published file is not what was published: it is cut short or damaged, as by a file
// system whose server was lost. An earlier file of the part may be whole.
var errBroken = errors.New("the file is not what was published")

// partName is the file's name: number, attempt, sequence, and the beginning of the content's sha256.
var partName = regexp.MustCompile(`^part-([0-9]{1,9})-([0-9]{1,9})-([0-9]{1,9})-([0-9a-f]{16})\.db$`)

// temporary begins the names of files that are being written. A process that is killed leaves them.
const temporary = ".writing-"

func (p partFile) file() string {
	return fmt.Sprintf("part-%05d-%d-%04d-%s.db", p.Number, p.Attempt, p.Sequence, p.sum)
}

// later orders parts by number, and the files of one number from the earliest on.
func later(a, b partFile) int {
	for _, d := range []int{a.Number - b.Number, a.Attempt - b.Attempt, a.Sequence - b.Sequence} {
		if d != 0 {
			return d
		}
	}
	return strings.Compare(a.sum, b.sum)
}

// publisher publishes the files of one attempt at a part.
type publisher struct {
	dir             string
	number, attempt int
	published       int        // files so far
	kept            []partFile // published and not removed, the latest last
}

// begin begins a new attempt at a part. No two publishers have the same attempt, whatever Slurm counts: a
// controller that was killed may start a task a second time without counting it.
func begin(dir string, number int) (*publisher, error) {
	for attempt := 0; ; attempt++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("begun-%05d-%d", number, attempt)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("begin part %d: %w", number, err)
		}
		return &publisher{dir: dir, number: number, attempt: attempt}, f.Close()
	}
}

// publish copies a file, which must not change meanwhile, into the directory as the latest of the
// attempt. What was published is on the disk when publish returns. Of the attempt's files it keeps this
// one and the one before. A file with the content of the latest one is not published again.
func (p *publisher) publish(file string) (_ partFile, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("publish part %d in %s: %w", p.number, p.dir, err)
		}
	}()
	out, err := os.CreateTemp(p.dir, temporary)
	if err != nil {
		return partFile{}, err
	}
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(out.Name()))) }() // missing: it has its new name
	sum, err := copyInto(out, file)
	if err != nil {
		return partFile{}, err
	}
	if n := len(p.kept); n > 0 && p.kept[n-1].sum == sum {
		return p.kept[n-1], nil
	}
	made := partFile{Number: p.number, Attempt: p.attempt, Sequence: p.published + 1, sum: sum}
	made.Path = filepath.Join(p.dir, made.file())
	if err := os.Rename(out.Name(), made.Path); err != nil {
		return partFile{}, err
	}
	p.published = made.Sequence
	p.kept = append(p.kept, made)
	if err := syncDir(p.dir); err != nil {
		return partFile{}, err
	}
	for ; len(p.kept) > 2; p.kept = p.kept[1:] {
		if err := ignoreMissing(os.Remove(p.kept[0].Path)); err != nil {
			return made, err
		}
	}
	return made, nil
}

// copyInto copies a file into another one, puts it on the disk and closes it. It returns the beginning of
// the content's sha256.
func copyInto(out *os.File, file string) (sum string, err error) {
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, h), in); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), out.Sync()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// listParts returns the published files, by number and from the earliest to the latest of each number. Other
// files, such as those that are being written, are not listed, and neither is what has the name of a
// published file and is not a file, such as a link.
func listParts(dir string) (all []partFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list parts: %w", err)
	}
	for _, e := range entries {
		f := partName.FindStringSubmatch(e.Name())
		if f == nil || !e.Type().IsRegular() {
			continue
		}
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(f[1+i]) // at most nine digits
		}
		all = append(all, partFile{Number: n[0], Attempt: n[1], Sequence: n[2], sum: f[4], Path: filepath.Join(dir, e.Name())})
	}
	slices.SortFunc(all, later)
	return all, nil
}

// copyTo makes a file at path, which must not exist, with what was published. The error matches errBroken
// if the part is not whole, and fs.ErrNotExist if a later one has replaced it.
func (p partFile) copyTo(path string) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("copy part %d: %w", p.Number, err)
	}
	sum, err := copyInto(out, p.Path)
	if err == nil && sum != p.sum {
		err = fmt.Errorf("%s: %w", p.Path, errBroken)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("copy part %d: %w", p.Number, err), os.Remove(path))
	}
	return nil
}

// fetch makes a file at path, which must not exist, with the latest whole file of a number. The error
// matches fs.ErrNotExist if there is none.
func fetch(dir string, number int, path string) (partFile, error) {
	for {
		all, err := listParts(dir)
		if err != nil {
			return partFile{}, err
		}
		p, again, err := fetchFrom(all, number, path)
		if !again {
			return p, err
		}
	}
}

// fetchFrom makes the file from a list of parts. again says that the list has become old: a file is gone,
// so that a later one is there.
func fetchFrom(all []partFile, number int, path string) (_ partFile, again bool, err error) {
	for _, p := range slices.Backward(all) {
		if p.Number != number {
			continue
		}
		err := p.copyTo(path)
		if _, gone := os.Lstat(p.Path); errors.Is(err, fs.ErrNotExist) && errors.Is(gone, fs.ErrNotExist) {
			return partFile{}, true, nil
		}
		if err == nil || !errors.Is(err, errBroken) {
			return p, false, err
		}
	}
	return partFile{}, false, fmt.Errorf("part %d: no whole file: %w", number, fs.ErrNotExist)
}
