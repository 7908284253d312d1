// Package swaparea runs native/ballast/swaparea, which makes page-locked host memory that device
// memory of processes can be moved to, and hands that memory out in pieces.
package swaparea

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/surroundings"
)

// PieceBytes is the size of a piece in a run.
const PieceBytes = 32 << 20

// errNoRoom is wrapped by Start if the host has less memory than the area is to have.
var errNoRoom = errors.New("not enough host memory")

// exitNoRoom is hold.h's EXIT_NO_ROOM.
const exitNoRoom = 3

// Area is page-locked memory of the host. Its methods may be called from any goroutine.
type Area struct {
	*child.Helper
	files []int // descriptors of the pieces
	piece int64 // bytes

	mu   sync.Mutex
	free []int // pieces that are not taken, as descriptors
}

// Start runs bin, which makes an area of so many bytes, in pieces of `piece` bytes each. That takes a
// second for about 4 GiB. made, if not nil, is told how many bytes there are so far. The memory is given
// back when this process ends, even by SIGKILL. ctx limits only the start.
func Start(ctx context.Context, bin string, bytes, piece int64, made func(bytes int64)) (*Area, error) {
	a, err := start(ctx, bin, bytes, piece, made)
	var exit *child.ExitError
	if errors.As(err, &exit) && exit.Status == exitNoRoom {
		err = fmt.Errorf("%w: %s", errNoRoom, exit.Said)
	}
	if err != nil {
		return nil, fmt.Errorf("make %s of swap area: %w", size.Text(bytes), err)
	}
	return a, nil
}

func start(ctx context.Context, bin string, bytes, piece int64, made func(int64)) (_ *Area, err error) {
	if bytes <= 0 || bytes%piece != 0 {
		return nil, fmt.Errorf("not a multiple of %d", piece)
	}
	if err := checkDescriptors(bytes / piece); err != nil {
		return nil, err
	}
	ours, its, err := socketpair()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, strconv.FormatInt(bytes, 10), strconv.FormatInt(piece, 10))
	cmd.Env, _ = surroundings.WithoutMPS(os.Environ())
	cmd.ExtraFiles = []*os.File{its}
	h, err := child.StartHelper(cmd)
	its.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	a := &Area{Helper: h, piece: piece}
	ready := make(chan error, 1)
	go func() {
		defer close(ready)
		err := a.receive(ours, bytes, made)
		ours.Close()
		if err != errEnded {
			ready <- err
		}
	}()
	failed, err := child.Until(ctx, h, ready)
	if err == nil && failed != nil {
		err = errors.Join(failed, h.Close())
	}
	if err != nil {
		for range ready { // the program has ended, so receive ends
		}
		a.closeFiles()
		return nil, err
	}
	a.free = slices.Clone(a.files)
	return a, nil
}

// spareDescriptors is what the rest of a run needs at least.
const spareDescriptors = 256

func checkDescriptors(pieces int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if need := uint64(pieces) + spareDescriptors; limit.Cur < need {
		return fmt.Errorf("it takes %d open files, and the limit is %d: raise it (ulimit -n %d)", pieces, limit.Cur, need)
	}
	return nil
}

func socketpair() (ours, its *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(fds[1], false); err != nil { // the program waits
		return nil, nil, errors.Join(fmt.Errorf("socketpair: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	return os.NewFile(uintptr(fds[0]), "swap area"), os.NewFile(uintptr(fds[1]), "swap area"), nil
}

var errEnded = errors.New("the program has ended")

// receive takes the pieces until all are there.
func (a *Area) receive(from *os.File, bytes int64, made func(int64)) error {
	for {
		var packet struct {
			Made int64 `json:"made"`
		}
		text, files, err := receivePacket(from)
		a.files = append(a.files, files...)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &packet); err != nil || packet.Made != int64(len(a.files))*a.piece {
			return errors.Join(fmt.Errorf("it said %q after %d pieces", text, len(a.files)), err)
		}
		if made != nil {
			made(packet.Made)
		}
		if packet.Made >= bytes {
			return nil
		}
	}
}

func receivePacket(from *os.File) (text []byte, files []int, err error) {
	connection, err := from.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	text, control := make([]byte, 256), make([]byte, unix.CmsgSpace(4*64))
	var n, used, flags int
	var failed error
	err = connection.Read(func(fd uintptr) bool {
		n, used, flags, _, failed = unix.Recvmsg(int(fd), text, control, unix.MSG_CMSG_CLOEXEC)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, nil, fmt.Errorf("receive descriptors: %w", err)
	}
	if n == 0 {
		return nil, nil, errEnded
	}
	messages, err := unix.ParseSocketControlMessage(control[:used])
	for _, m := range messages {
		passed, wrong := unix.ParseUnixRights(&m)
		files, err = append(files, passed...), errors.Join(err, wrong)
	}
	if flags&unix.MSG_CTRUNC != 0 {
		err = errors.Join(err, errors.New("this process can have no more open files: raise the limit (ulimit -n)"))
	}
	return text[:n], files, err
}

// Bytes returns the size of the area; 0 once it is closed.
func (a *Area) Bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.files)) * a.piece
}

// Piece returns the bytes of a piece.
func (a *Area) Piece() int64 { return a.piece }

// Take returns up to n free pieces, as descriptors, which stay the Area's.
func (a *Area) Take(n int) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.take(n)
}

// TakeSpare is Take, but leaves half of the area free.
func (a *Area) TakeSpare(n int) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.take(min(n, max(0, len(a.free)-len(a.files)/2)))
}

// take is Take with mu held.
func (a *Area) take(n int) []int {
	left := max(0, len(a.free)-n)
	out := slices.Clone(a.free[left:])
	a.free = a.free[:left]
	return out
}

// Give takes pieces back from a process that has ended.
func (a *Area) Give(pieces []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = append(a.free, pieces...)
}

// Close gives the memory back. It returns an error if the program had ended before, had to be killed,
// or failed.
func (a *Area) Close() error {
	a.closeFiles()
	if err := a.Helper.Close(); err != nil {
		return fmt.Errorf("close the swap area: %w", err)
	}
	return nil
}

func (a *Area) closeFiles() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fd := range a.files {
		_ = unix.Close(fd)
	}
	a.files, a.free = nil, nil
}
