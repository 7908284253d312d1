package nvml

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// ErrNoGPU is wrapped by Open if the node has no NVIDIA GPU: the library is missing, the driver
// is not loaded, or the driver has no device. Other errors of Open mean
// that a GPU should work but does not, for example because permission is missing.
var ErrNoGPU = errors.New("no NVIDIA GPU")

// errNotSupported is wrapped if the device or the installed driver does not offer a call. The
// call then fails for the life of the process.
var errNotSupported = errors.New("not supported")

// ErrLost is wrapped if a device has fallen off the bus or needs a reset. NVML can answer this at any time.
var ErrLost = errors.New("the GPU is lost")

// ErrUnusable is wrapped where a device that cannot be used was asked for.
var ErrUnusable = errors.New("cannot be used")

// callError is a failed NVML call. It keeps the text, because nvmlErrorString is not available
// once the library is unloaded.
type callError struct {
	Call   string // NVML's name, such as nvmlDeviceGetUtilizationRates
	Device string // UUID, or the position if the UUID is unknown; empty for the node
	Text   string // NVML's description of the code
	code   nvml.Return
}

func (e *callError) Error() string {
	if e.Device == "" {
		return fmt.Sprintf("%s: %s (code %d)", e.Call, e.Text, int(e.code))
	}
	return fmt.Sprintf("%s on %s: %s (code %d)", e.Call, e.Device, e.Text, int(e.code))
}

// Is makes the codes that callers branch on match their sentinels.
func (e *callError) Is(target error) bool {
	switch target {
	case errNotSupported:
		return e.code == nvml.ERROR_NOT_SUPPORTED || e.code == nvml.ERROR_FUNCTION_NOT_FOUND
	case ErrLost:
		return e.code == nvml.ERROR_GPU_IS_LOST || e.code == nvml.ERROR_RESET_REQUIRED
	case ErrNoGPU:
		return e.code == nvml.ERROR_LIBRARY_NOT_FOUND || e.code == nvml.ERROR_DRIVER_NOT_LOADED
	}
	return false
}

// check turns a return code into an error. Every Return must pass through check, because a
// Return is itself an error and SUCCESS is not nil.
func check(ret nvml.Return, call, device string) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return &callError{Call: call, Device: device, Text: oneLine(ret.Error()), code: ret}
}

// optional returns nil if err says that the device or driver does not offer the metric; the
// caller then leaves the metric absent. It returns other errors unchanged.
func optional(err error) error {
	if errors.Is(err, errNotSupported) {
		return nil
	}
	return err
}

// oneLine is a text of the driver without what a store or a terminal does not take: it is valid UTF-8 without control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}
