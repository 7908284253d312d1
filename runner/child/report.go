package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// Report runs cmd and reads the JSON that it prints. The error of a program that fails has what it printed to stderr.
func Report[T any](cmd *exec.Cmd) (T, error) {
	var told T
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err == nil {
		err = json.Unmarshal(out, &told)
	}
	return told, err
}
