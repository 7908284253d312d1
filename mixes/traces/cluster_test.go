package traces

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	taskHeader = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
	nodeHeader = "sn,cpu_milli,memory_mib,gpu,model\n"
)

func TestTasksAndNodesOfACluster(t *testing.T) {
	tasks, err := ReadTasks("t.csv", strings.NewReader(taskHeader+"a,12000,16384,1,460,V100M16|V100M32,LS,Running,0,20,5\nb,1500,1,0,1000,,BE,Pending,1,2,\n"))
	if diff := cmp.Diff([]Task{{Name: "a", CPU: 12000, Memory: 16384, GPUs: 1, Share: 460, Models: "V100M16|V100M32", Started: true, Start: 5, End: 20},
		{Name: "b", CPU: 1500, Memory: 1, Created: 1, End: 2}}, tasks); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	nodes, err := ReadNodes("n.csv", strings.NewReader(nodeHeader+"n0,64000,262144,2,P100\n"))
	if diff := cmp.Diff([]Node{{Name: "n0", CPU: 64000, Memory: 262144, GPUs: 2, Model: "P100"}}, nodes); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestBadTasksAndNodes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                      "t.csv:1: an empty file",
		taskHeader:                                              "t.csv: only a header: want a row for each record",
		"name,cpu_milli\na,1\n":                                 `t.csv:1: no column "memory_mib"`,
		taskHeader + ",1,1,1,1,,,,0,2,1\n":                      `t.csv:2: bad name ""`,
		taskHeader + "a,x,1,1,1,,,,0,2,1\n":                     `t.csv:2: bad cpu_milli "x": want a whole number from 0 to 1e+12`,
		taskHeader + "a,1,1,17,1,,,,0,2,1\n":                    `t.csv:2: bad num_gpu "17": want a whole number from 0 to 16`,
		taskHeader + "a,1,1,1,1001,,,,0,2,1\n":                  `t.csv:2: bad gpu_milli "1001"`,
		taskHeader + "a,1,1,1,1.5,,,,0,2,1\n":                   `t.csv:2: bad gpu_milli "1.5"`,
		taskHeader + "a,1,1,1,0,,,,0,2,1\n":                     "t.csv:2: gpu_milli is 0 and num_gpu 1",
		taskHeader + "a,1,1,1,1,,,,0,,1\n":                      `t.csv:2: bad deletion_time "": want seconds`,
		taskHeader + "a,1,1,1,1,,,,5,2,1\n":                     "t.csv:2: creation_time, scheduled_time and deletion_time are 5, 1 and 2",
		taskHeader + "a,1,1,1,1,,,,5,9,7\nb,1,1,1,1,,,,4,9,7\n": "t.csv:3: creation_time 4 is before that of the row above: sort the file by it",
	} {
		if _, err := ReadTasks("t.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		nodeHeader + "a,1,1,1,P\na,1,1,1,P\n": `n.csv:3: a second node "a": name each sn once`,
		nodeHeader + "a,1,1,-1,P\n":           `n.csv:2: bad gpu "-1": want a whole number from 0 to 16`,
	} {
		if _, err := ReadNodes("n.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzClusterTraces(f *testing.F) {
	f.Add(taskHeader + "a,12000,16384,1,460,V100M16|V100M32,LS,Running,0,20,5\n")
	f.Add(nodeHeader + "n0,64000,262144,2,P100\n")
	f.Fuzz(func(t *testing.T, text string) {
		tasks, err := ReadTasks("f", strings.NewReader(text))
		if err == nil && len(tasks) == 0 {
			t.Error("no task and no error")
		}
		nodes, err := ReadNodes("f", strings.NewReader(text))
		if err == nil && len(nodes) == 0 {
			t.Error("no node and no error")
		}
	})
}
