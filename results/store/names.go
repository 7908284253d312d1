package store

import (
	"context"
	"fmt"
)

// Names are the names by which users tell the runs of a store apart, each once.
type Names struct{ Mixes, Schedulers, Arms, Nodes, Tags []string }

// Names returns the names of the store's runs.
func (s *Store) Names(ctx context.Context) (n Names, err error) {
	for _, column := range []struct {
		name string
		to   *[]string
	}{{"mix", &n.Mixes}, {"scheduler", &n.Schedulers}, {"arm", &n.Arms}, {"node", &n.Nodes}, {"tag", &n.Tags}} {
		query := fmt.Sprintf("SELECT DISTINCT case_name(%s) FROM run WHERE %[1]s != '' ORDER BY 1", column.name)
		if *column.to, err = collect(ctx, s, "list names", query, nil, func(name *string) []any { return []any{name} }); err != nil {
			return n, err
		}
	}
	return n, nil
}
