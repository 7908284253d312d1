package layer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/userfile"
)

const (
	// readyPeriod is the time between two questions whether a daemon is ready.
	readyPeriod = 50 * time.Millisecond
	// tailBytes and tailLines are how much of a daemon's log an error has.
	tailBytes, tailLines = 2 << 10, 10
)

// Running is a layer with its daemon, if it has one, during a run.
type Running struct {
	*Layer
	// Token is a variable that all processes of the daemon have, as NAME=VALUE.
	Token  string
	env    []string
	values map[string]string
	dir    *scratch.Dir
	log    *os.File
	proc   *child.Process // nil: the layer has no daemon
}

// Prepare makes what the layer has during a run on these devices. The log is that of its daemon, which gets the environment. Stop must
// follow a success.
func (l *Layer) Prepare(devices, env []string, log string) (*Running, error) {
	dir, err := scratch.Make("layer")
	if err != nil {
		return nil, fmt.Errorf("layer %s: %w", l.Name, err)
	}
	r := &Running{Layer: l, Token: "CASERUN_LAYER=" + rand.Text(), dir: dir,
		values: map[string]string{"dir": dir.Path(), "devices": strings.Join(devices, ",")}}
	r.env = append(env, r.Token)
	if len(l.Start) == 0 {
		return r, nil
	}
	if err = os.MkdirAll(filepath.Dir(log), 0o755); err == nil {
		r.log, err = os.OpenFile(log, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("log of layer %s: %w", l.Name, errors.Join(err, dir.Remove()))
	}
	return r, nil
}

// Start starts the daemon, which ends with this process, and returns once it is ready.
func (r *Running) Start(ctx context.Context) (err error) {
	if len(r.Layer.Start) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.ReadyWithin, fmt.Errorf("its daemon was not ready within %v: see whether ready: asks for the right thing, or raise ready_within", r.ReadyWithin))
	defer cancel()
	if r.proc, err = r.launch(r.Layer.Start); err != nil {
		return fmt.Errorf("start layer %s: %w", r.Name, err)
	}
	for len(r.Ready) > 0 {
		if err = r.do(ctx, r.Ready); err == nil {
			break
		}
		select {
		case <-r.proc.Done():
			return fmt.Errorf("start layer %s: %w", r.Name, r.ended())
		case <-ctx.Done():
			return fmt.Errorf("start layer %s: %w%s", r.Name, context.Cause(ctx), r.tail())
		case <-time.After(readyPeriod):
		}
	}
	return nil
}

// Done is closed when the daemon has ended; nil: there is none.
func (r *Running) Done() <-chan struct{} {
	if r.proc == nil {
		return nil
	}
	return r.proc.Done()
}

// Stop ends the daemon. Its error is that the daemon had ended before. late, which may be nil, says that the daemon did not end when it
// was told to, and was killed.
func (r *Running) Stop() (late, err error) {
	if r.proc != nil {
		late, err = r.stop()
	}
	if r.log != nil {
		err = errors.Join(err, r.log.Close())
	}
	return late, errors.Join(err, r.dir.Remove())
}

func (r *Running) stop() (late, err error) {
	select {
	case <-r.proc.Done():
		err = fmt.Errorf("layer %s: %w", r.Name, r.ended())
		return nil, errors.Join(err, r.proc.Kill()) // what is left of its group
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.StopWithin)
	defer cancel()
	if len(r.Layer.Stop) > 0 {
		if failed := r.do(ctx, r.Layer.Stop); failed != nil {
			late = fmt.Errorf("layer %s: stop: %w", r.Name, failed)
		}
	} else {
		_ = syscall.Kill(-r.proc.PID(), syscall.SIGTERM) // it may have ended
	}
	select {
	case <-r.proc.Done():
	case <-ctx.Done():
		late = errors.Join(late, fmt.Errorf("layer %s: its daemon did not end within %v of being told to, and was killed", r.Name, r.StopWithin))
	}
	return late, r.proc.Kill()
}

// Rename gives the daemon's log another place. The daemon does not notice.
func (r *Running) Rename(log string) error {
	if r.log == nil {
		return nil
	}
	return os.Rename(r.log.Name(), log)
}

// Forget removes the log of a daemon, of which the error of Start has the end.
func (r *Running) Forget() {
	if r.log != nil {
		_ = os.Remove(r.log.Name()) // it has its own place once it is renamed
	}
}

// launch starts a command of the layer.
func (r *Running) launch(argv []string) (*child.Process, error) {
	cmd := exec.Command(argv[0])
	for _, a := range argv[1:] {
		cmd.Args = append(cmd.Args, fill(a, r.values))
	}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Dir(r.file), r.env, r.log, r.log
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, userfile.NotStarted(argv[0], cmd.Dir, err)
	}
	return p, nil
}

// do does a command until ctx ends at the latest.
func (r *Running) do(ctx context.Context, argv []string) error {
	p, err := r.launch(argv)
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
		return p.Err()
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s did not end in time", filepath.Base(argv[0])), p.Kill())
	}
}

// ended says how the daemon ended by itself, and what it said.
func (r *Running) ended() error {
	how := "exit status 0"
	if err := r.proc.Err(); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("its daemon ended by itself (%s): it must stay in the foreground%s", how, r.tail())
}

// tail is the end of the log.
func (r *Running) tail() string {
	info, err := r.log.Stat()
	if err != nil {
		return ""
	}
	text := make([]byte, min(info.Size(), tailBytes))
	n, err := r.log.ReadAt(text, info.Size()-int64(len(text)))
	if err != nil && err != io.EOF {
		return ""
	}
	said := strings.TrimSpace(strings.ToValidUTF8(string(text[:n]), "?"))
	if said == "" {
		return "; its log is empty"
	}
	lines := strings.Split(said, "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "; the last " + size.Count(len(lines), "line") + " of its log:\n" + strings.Join(lines, "\n")
}
