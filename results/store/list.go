package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/caserun/caserun/results"
)

// Modes gives the ids of the selected runs and whether each was measured or
// simulated.
func (s *Store) Modes(ctx context.Context, f Filter) (map[int64]results.Mode, error) {
	type line struct {
		id   int64
		mode results.Mode
	}
	condition, args := f.where()
	found, err := collect(ctx, s, "list runs", "SELECT id, mode FROM run WHERE "+condition, args,
		func(l *line) []any { return []any{&l.id, &l.mode} })
	modes := make(map[int64]results.Mode, len(found))
	for _, l := range found {
		modes[l.id] = l.mode
	}
	return modes, err
}

// DevicesOf gives the devices of every selected run in bus order, by run.
func (s *Store) DevicesOf(ctx context.Context, f Filter) (map[int64][]results.Device, error) {
	type line struct {
		run int64
		results.Device
	}
	condition, args := f.where()
	query := fmt.Sprintf("SELECT run_id, %s, %s FROM device WHERE run_id IN (SELECT id FROM run WHERE %s) ORDER BY run_id, device_index",
		strings.Join(devices.keys, ", "), strings.Join(devices.columns, ", "), condition)
	found, err := collect(ctx, s, "list devices", query, args, func(l *line) []any {
		keys, values := devices.fields(&l.Device)
		return append(append([]any{&l.run}, keys...), values...)
	})
	byRun := map[int64][]results.Device{}
	for _, l := range found {
		byRun[l.run] = append(byRun[l.run], l.Device)
	}
	return byRun, err
}

// CommandsOf gives the commands of every selected run, by run, as
// results.CommandList does.
func (s *Store) CommandsOf(ctx context.Context, f Filter) (map[int64]string, error) {
	type line struct {
		run      int64
		commands string
	}
	condition, args := f.where()
	query := fmt.Sprintf("SELECT run_id, group_concat(command, char(10) ORDER BY job_index) FROM job WHERE run_id IN (SELECT id FROM run WHERE %s) GROUP BY run_id", condition)
	found, err := collect(ctx, s, "list commands", query, args, func(l *line) []any { return []any{&l.run, &l.commands} })
	byRun := make(map[int64]string, len(found))
	for _, l := range found {
		byRun[l.run] = l.commands
	}
	return byRun, err
}

// FaultsAlone is, by command, the latest live run of the suite in which a job of that
// command faulted with a device to itself (scheduler sa).
func (s *Store) FaultsAlone(ctx context.Context, suite string) (map[string]int64, error) {
	type line struct {
		command string
		run     int64
	}
	found, err := collect(ctx, s, "list faults", `SELECT job.command, max(run.id) FROM job JOIN run ON run.id = job.run_id
		WHERE job.outcome = ? AND run.scheduler = 'sa' AND run.mode = ? AND run.suite = ? GROUP BY job.command`,
		[]any{results.Fault, results.Live, suite}, func(l *line) []any { return []any{&l.command, &l.run} })
	out := map[string]int64{}
	for _, l := range found {
		out[l.command] = l.run
	}
	return out, err
}
