package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/strictjson"
)

const (
	// largestManifest bounds what is read before the manifest says how much the bundle holds.
	largestManifest = 64 << 20
	// largestHeader bounds what the archive format adds to each member and at the end.
	largestHeader = 64 << 10
)

// Opened is a bundle's store, opened for reading.
type Opened struct {
	*store.Store
	dir string
}

// Open checks every member of a bundle, unpacks its store to a temporary directory and opens
// the store. Close removes the directory. The store's Path is the bundle's path. If ctx ends,
// Open stops and returns its cause.
func Open(ctx context.Context, path string) (_ *Opened, err error) {
	name, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", path, err)
	}
	dir, err := os.MkdirTemp("", "caserun-bundle-*")
	if err != nil {
		return nil, fmt.Errorf("bundle %s: unpack: %w", path, userfile.TemporaryError(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	room, err := free(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: unpack: %w", path, err)
	}
	err = unpack(ctx, name, filepath.Join(dir, storeName), room)
	if ctx.Err() != nil {
		err = fmt.Errorf("bundle %s: unpack: %w", path, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	s, err := store.OpenUpdatedAs(filepath.Join(dir, storeName), name)
	if err != nil {
		return nil, fmt.Errorf("bundle %w", err)
	}
	return &Opened{s, dir}, nil
}

// Close closes the store and removes what was unpacked.
func (o *Opened) Close() error {
	return errors.Join(o.Store.Close(), os.RemoveAll(o.dir))
}

// free returns the bytes that can be written to a directory's file system.
func free(dir string) (bytes int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// bounded is a reader that fails after left bytes and when ctx ends.
type bounded struct {
	ctx  context.Context
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	if b.left == 0 {
		return 0, errors.New("it unpacks to more than its manifest says")
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// unpack checks the archive against its manifest and writes its store to target, which may
// take at most room bytes.
func unpack(ctx context.Context, path, target string, room int64) (err error) {
	file, err := userfile.Open(path, 0)
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	defer file.Close()
	buffered := bufio.NewReader(file) // an io.ByteReader: gzip does not read beyond its own end
	compressed, err := gzip.NewReader(buffered)
	if err != nil {
		return damaged(path, manifestName, short(err))
	}
	compressed.Multistream(false)
	unpacked := &bounded{ctx, compressed, largestManifest + largestHeader}
	archive := tar.NewReader(unpacked)
	manifest, err := readManifest(path, archive)
	if err != nil {
		return err
	}
	all, err := manifest.size()
	if err != nil {
		return fmt.Errorf("bundle %s: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("bundle: %w", err)
	}
	if most := mostOf(info.Size()); all > most {
		return fmt.Errorf("bundle %s: it says that its %s unpack to %s, and a bundle of this size to %s at most: caserun export --bundle did not write it",
			path, size.Text(info.Size()), size.Text(all), size.Text(most))
	}
	unpacked.left = all + int64(len(manifest.Members)+2)*largestHeader
	stored := false
	for _, member := range manifest.Members {
		header, err := archive.Next()
		if err != nil {
			return damaged(path, member.Name, short(err))
		}
		if header.Name != member.Name || header.Size != member.Bytes {
			return damaged(path, member.Name, fmt.Errorf("the archive has %.100s with %d bytes in its place", header.Name, header.Size))
		}
		if !plain(header) {
			return fmt.Errorf("bundle %s: member %.100q is not a plain file: caserun export --bundle did not write it", path, member.Name)
		}
		if member.Name == storeName && member.Bytes > room {
			return fmt.Errorf("bundle %s: unpack member %s of %s: %s has room for %s: name another directory with TMPDIR",
				path, member.Name, size.Text(member.Bytes), filepath.Dir(target), size.Text(room))
		}
		if err := readMember(archive, member, target); errors.Is(err, errHere) {
			return fmt.Errorf("bundle %s: unpack member %s: %w", path, member.Name, err)
		} else if err != nil {
			return damaged(path, member.Name, err)
		}
		stored = stored || member.Name == storeName
	}
	if !stored {
		return damaged(path, storeName, errors.New("it is not in the archive"))
	}
	return checkEnd(path, archive, unpacked, buffered)
}

// checkEnd reads what follows the last member: padding and the checksum of the whole.
func checkEnd(path string, archive *tar.Reader, unpacked io.Reader, file io.ByteReader) error {
	switch next, err := archive.Next(); {
	case err == nil:
		return damaged(path, next.Name, errors.New("the manifest does not have it"))
	case !errors.Is(err, io.EOF):
		return damaged(path, "the archive's end", short(err))
	}
	if _, err := io.Copy(io.Discard, unpacked); err != nil {
		return damaged(path, "the archive's end", short(err))
	}
	switch _, err := file.ReadByte(); {
	case err == nil:
		return fmt.Errorf("bundle %s: something follows the archive's end: the file is damaged, get another copy", path)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("bundle %s: read what follows the archive's end: %w", path, err)
	}
	return nil
}

// plain reports whether a member is a file whose every byte is in the archive.
func plain(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return false
		}
	}
	return h.Typeflag == tar.TypeReg
}

func readManifest(path string, archive *tar.Reader) (m manifest, err error) {
	header, err := archive.Next()
	switch {
	case err != nil:
		return m, damaged(path, manifestName, short(err))
	case header.Name != manifestName:
		return m, fmt.Errorf("bundle %s: it begins with %.100q and not with %s: caserun export --bundle did not write it", path, header.Name, manifestName)
	case !plain(header):
		return m, fmt.Errorf("bundle %s: %s is not a plain file: caserun export --bundle did not write it", path, manifestName)
	}
	if header.Size > largestManifest {
		return m, fmt.Errorf("bundle %s: %s has %d bytes, and %d at most: caserun export --bundle did not write it", path, manifestName, header.Size, largestManifest)
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return m, damaged(path, manifestName, short(err))
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, damaged(path, manifestName, strictjson.Plainly(err))
	}
	if err := strictjson.CheckKeys(text, &m); err != nil {
		return m, damaged(path, manifestName, err)
	}
	if m.Format > format {
		return m, fmt.Errorf("bundle %s: its format %d is newer than this program's %d: use the caserun that wrote it (%s), or a later one",
			path, m.Format, format, m.Writer)
	}
	return m, nil
}

// errHere marks errors of the reading machine, not of the bundle.
var errHere = errors.New("write a temporary file")

// readMember checks a member, and writes it to target if it is the store.
func readMember(r io.Reader, m member, target string) (err error) {
	sum := sha256.New()
	var out io.Writer = sum
	if m.Name == storeName {
		begin := make([]byte, min(m.Bytes, store.HeaderSize))
		if _, err := io.ReadFull(r, begin); err != nil {
			return short(err)
		}
		if err := store.CheckHeader(begin, m.Bytes); err != nil {
			return err
		}
		r = io.MultiReader(bytes.NewReader(begin), r)
		f, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("%w: %w", errHere, err)
		}
		defer func() {
			if e := f.Close(); e != nil {
				err = errors.Join(err, fmt.Errorf("%w: %w", errHere, e))
			}
		}()
		out = io.MultiWriter(sum, here{f})
	}
	n, err := io.Copy(out, r)
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case err != nil:
		return short(err)
	case n != m.Bytes || got != m.SHA256:
		return fmt.Errorf("its SHA-256 is %s and the manifest says %s", got, m.SHA256)
	}
	return nil
}

// here wraps the errors of a writer in errHere.
type here struct{ w io.Writer }

func (h here) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errHere, err)
	}
	return n, err
}

// short replaces an unexpected end of file by errShort, which says it in words.
func short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errShort
	}
	return err
}
