package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Tasks are grouped by the reason for which they wait. The reasons are those that Slurm 22.05.8 printed.
func TestWaits(t *testing.T) {
	const reserved = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
	waits := Waits([]Task{
		{Number: 1, State: "RUNNING", Reason: "None"},
		{Number: 2, State: "PENDING", Reason: "Priority"},
		{Number: 3, State: "PENDING", Reason: reserved},
		{Number: 4, State: "PENDING", Reason: "None"},
		{Number: 5, State: "PENDING", Reason: "Priority"},
		{Number: 6, State: "FAILED", Reason: "BadConstraints"},
	})
	want := []Wait{{Reason: "Priority", Tasks: 2}, {Reason: reserved, Tasks: 1, Remedy: nodesRemedy}}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Fatalf("waits (-want +got):\n%s", diff)
	}
	if got := waits[0].String(); got != "2 tasks wait: Priority" {
		t.Error(got)
	}
	if got := waits[1].String(); !strings.HasPrefix(got, "1 task waits: "+reserved+": sinfo -R ") || waits[1].Short() != "Nodes required for job are DOWN" {
		t.Errorf("%s; short %s", got, waits[1].Short())
	}
}

// What to do is said of reasons that may not end by themselves, and of no others.
func TestWaitsThatLast(t *testing.T) {
	for reason, lasts := range map[string]bool{
		"Resources": false, "Priority": false, "BeginTime": false, "Dependency": false, "JobArrayTaskLimit": false, "Licenses": false,
		"AssocGrpCpuLimit": false, "QOSMaxJobsPerUserLimit": false, "launch failed requeued held": false, "launch_failed_requeued_held": false,
		"ReqNodeNotAvail, UnavailableNodes:n1": true, "ReqNodeNotAvail,_UnavailableNodes:n1": true,
		"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": true,
		"PartitionNodeLimit": true, "PartitionTimeLimit": true, "PartitionDown": true, "PartitionInactive": true, "BadConstraints": true,
		"JobHeldUser": true, "JobHeldAdmin": true, "DependencyNeverSatisfied": true, "AssocMaxCpuPerJobLimit": true, "InvalidAccount": true, "InvalidQOS": true,
	} {
		if waits := Waits([]Task{{State: "PENDING", Reason: reason}}); len(waits) != 1 || (waits[0].Remedy != "") != lasts {
			t.Errorf("%s: %+v; want a remedy: %v", reason, waits, lasts)
		}
	}
}
