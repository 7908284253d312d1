package sim

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
)

// A file of a cluster's nodes has a row for each kind. weight and nic may be empty.
var kindColumns = []string{"count", "model", "weight", "nic"}

func loadKinds(file string) ([]Kind, error) {
	f, err := userfile.Open(file, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readKinds(file, f)
}

// readKinds reads the kinds. Errors name file and line.
func readKinds(file string, from io.Reader) (kinds []Kind, err error) {
	err = csvfile.Rows(file, from, kindColumns, func(line int, fields []string) error {
		k, err := kindOf(fields[0], fields[1], fields[2], fields[3])
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, line, err)
		}
		kinds = joined(kinds, k)
		return nil
	})
	if err == nil && len(kinds) == 0 {
		return nil, fmt.Errorf("%s: only a header: want a row for each kind of node", file)
	}
	return kinds, err
}

func kindOf(count, model, weight, nic string) (k Kind, err error) {
	if k.Nodes, err = strconv.Atoi(count); err != nil || k.Nodes < 1 || k.Nodes > mostNodes {
		return k, fmt.Errorf("count %q: want 1 to %d", count, mostNodes)
	}
	if k.Node, err = parseNode(model); err != nil {
		return k, fmt.Errorf("model %q: %w", model, err)
	}
	if weight != "" {
		err = k.setWeight(weight)
	}
	if nic != "" {
		err = errors.Join(err, k.setNIC(nic))
	}
	return k, err
}
