package traces

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
)

// Task is a row of openb_pod_list_*.csv of Alibaba's cluster-trace-gpu-v2023.
type Task struct {
	Name       string
	CPU        int64   // thousandths of a CPU
	Memory     int64   // of the host, in MiB
	GPUs       int     // 0: it only loads CPUs
	Share      int     // thousandths of each of its GPUs
	Models     string  // that it can use, with | between them; "": all
	Created    float64 // seconds, as the other times
	Started    bool    // else it was deleted before it ran, and Start means nothing
	Start, End float64
}

// Node is a row of openb_node_list_*.csv of the same trace.
type Node struct {
	Name   string
	CPU    int64 // thousandths of a CPU
	Memory int64 // MiB
	GPUs   int
	Model  string // any name
}

// field is a column with what reads it.
type field[T any] struct {
	name string
	read func(*T, string) error
}

var taskFields = []field[Task]{
	{"name", func(t *Task, s string) error { return named(&t.Name, s) }},
	{"cpu_milli", func(t *Task, s string) error { return whole(&t.CPU, s, mostOf) }},
	{"memory_mib", func(t *Task, s string) error { return whole(&t.Memory, s, mostOf) }},
	{"num_gpu", func(t *Task, s string) error { return whole(&t.GPUs, s, maxNodeGPUs) }},
	{"gpu_milli", func(t *Task, s string) error { return whole(&t.Share, s, 1000) }},
	{"gpu_spec", func(t *Task, s string) error { t.Models = input.Name(s); return nil }},
	{"creation_time", func(t *Task, s string) error { return seconds(&t.Created, s) }},
	{"deletion_time", func(t *Task, s string) error { return seconds(&t.End, s) }},
	{"scheduled_time", func(t *Task, s string) error {
		if t.Started = s != ""; !t.Started {
			return nil
		}
		return seconds(&t.Start, s)
	}},
}

var nodeFields = []field[Node]{
	{"sn", func(n *Node, s string) error { return named(&n.Name, s) }},
	{"cpu_milli", func(n *Node, s string) error { return whole(&n.CPU, s, mostOf) }},
	{"memory_mib", func(n *Node, s string) error { return whole(&n.Memory, s, mostOf) }},
	{"gpu", func(n *Node, s string) error { return whole(&n.GPUs, s, maxNodeGPUs) }},
	{"model", func(n *Node, s string) error { n.Model = input.Name(s); return nil }},
}

// maxNodeGPUs is how many GPUs a node can have.
const maxNodeGPUs = 16

func named(to *string, text string) error {
	if *to = input.Name(text); !input.IsName(text) {
		return errors.New("want a word or a few on one line")
	}
	return nil
}

func whole[N int | int64](to *N, text string, most float64) error {
	v, err := csvfile.NotNegative(text, most)
	if err != nil || v != math.Trunc(v) {
		return fmt.Errorf("want a whole number from 0 to %g", most)
	}
	*to = N(v)
	return nil
}

func seconds(to *float64, text string) (err error) {
	if *to, err = csvfile.NotNegative(text, mostOf); err != nil {
		return fmt.Errorf("want seconds, a number from 0 to %g", float64(mostOf))
	}
	return nil
}

// ReadTasks reads the tasks of a cluster's trace, sorted by creation. Errors name file, line and column.
func ReadTasks(file string, from io.Reader) (tasks []Task, err error) {
	last := 0.0
	err = rows(file, from, taskFields, func(t Task) error {
		switch {
		case t.GPUs > 0 && t.Share == 0:
			return fmt.Errorf("gpu_milli is 0 and num_gpu %d: want thousandths of a GPU, or no GPU", t.GPUs)
		case t.Created < last:
			return fmt.Errorf("creation_time %g is before that of the row above: sort the file by it", t.Created)
		case t.Started && (t.Start < t.Created || t.End < t.Start):
			return fmt.Errorf("creation_time, scheduled_time and deletion_time are %g, %g and %g: want times in this order", t.Created, t.Start, t.End)
		}
		if t.GPUs == 0 {
			t.Share = 0
		}
		last = t.Created
		tasks = append(tasks, t)
		return nil
	})
	return tasks, err
}

// ReadNodes reads the nodes of a cluster. Errors name file, line and column.
func ReadNodes(file string, from io.Reader) (nodes []Node, err error) {
	names := map[string]bool{}
	err = rows(file, from, nodeFields, func(n Node) error {
		if names[n.Name] {
			return fmt.Errorf("a second node %q: name each sn once", n.Name)
		}
		names[n.Name] = true
		nodes = append(nodes, n)
		return nil
	})
	return nodes, err
}

// LoadTasks is ReadTasks of a file.
func LoadTasks(file string) ([]Task, error) { return load(file, ReadTasks) }

// LoadNodes is ReadNodes of a file.
func LoadNodes(file string) ([]Node, error) { return load(file, ReadNodes) }

func load[T any](file string, read func(string, io.Reader) ([]T, error)) ([]T, error) {
	f, err := userfile.Open(file, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(file, f)
}

// rows reads records, one at least, and says where an error is.
func rows[T any](file string, from io.Reader, fields []field[T], take func(T) error) error {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	count := 0
	err := csvfile.Rows(file, from, names, func(line int, texts []string) error {
		count++
		var record T
		for i, f := range fields {
			if err := f.read(&record, texts[i]); err != nil {
				return fmt.Errorf("%s:%d: bad %s %q: %w", file, line, f.name, texts[i], err)
			}
		}
		if err := take(record); err != nil {
			return fmt.Errorf("%s:%d: %w", file, line, err)
		}
		return nil
	})
	if err == nil && count == 0 {
		return fmt.Errorf("%s: only a header: want a row for each record", file)
	}
	return err
}
