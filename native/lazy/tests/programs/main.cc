// main.cc: runs the program that the arguments name.
#include <stdlib.h>

#include "program.h"

static const struct {
	const char *name;
	void (*run)();
} programs[] = {
	{"basic", basic}, {"unseen", unseen}, {"captures_unseen", captures_unseen}, {"impatient", impatient}, {"order", order}, {"shapes", shapes}, {"objects", objects}, {"managed", managed}, {"guarded", guarded}, {"pages", pages},
	{"many", many}, {"crowded", crowded}, {"allocation_rate", allocation_rate}, {"large_copy", large_copy}, {"read_first", read_first}, {"grow", grow},
	{"grow_waits", grow_waits}, {"settings", settings}, {"mistakes", mistakes}, {"streams", streams},
	{"captured", captured}, {"freed_in_capture", freed_in_capture}, {"free_while_captured", free_while_captured},
	{"limits", limits},
	{"tasks", tasks}, {"tasks_in_threads", tasks_in_threads}, {"tasks_with_stream", tasks_with_stream},
	{"tasks_with_variable", tasks_with_variable}, {"threads", threads}, {"churn", churn}, {"objects_beside", objects_beside}, {"devices", devices},
	{"two_devices", two_devices}, {"own_context", own_context}, {"forks", forks}, {"forks_bound", forks_bound},
	{"launch_events", launch_events}, {"launch_list", launch_list}, {"graph_nodes", graph_nodes},
	{"peer_copies", peer_copies}, {"ranges", ranges}, {"batches", batches}, {"prefetches", prefetches},
	{"execution_contexts", execution_contexts}, {"questions", questions},
	{"unseen_devices", unseen_devices}, {"init_flags", init_flags},
	{"exit_while_waiting", exit_while_waiting}, {"reset", reset}, {"too_much", too_much}, {"fault", fault},
	{"fault_unseen", fault_unseen}, {"fault_unseen_late", fault_unseen_late}, {"launch_only", launch_only}, {"rate", rate},
	{"set_device", set_device}, {"ask_first", ask_first}, {"init_device", init_device}, {"back_to_primary", back_to_primary},
	{"own_context_in_threads", own_context_in_threads}, {"driver_memory", driver_memory}, {"driver_captures", driver_captures}, {"driver_refused", driver_refused}, {"late_refusal", late_refusal}, {"immense", immense}, {"ends_contexts", ends_contexts}, {"host_freed_in_capture", host_freed_in_capture},
	{"registered_before_reset", registered_before_reset}, {"page_locked_beside", page_locked_beside},
	{"variable_by_address", variable_by_address}, {"callback", callback}, {"kinds_of_handles", kinds_of_handles}, {"handles_in_threads", handles_in_threads}, {"handles_forked", handles_forked}, {"handles_without_memory", handles_without_memory}, {"ordered_frees", ordered_frees}, {"idle_rounds", idle_rounds},
	{"frees_from_afar", frees_from_afar}, {"host_frees", host_frees}, {"temporaries", temporaries}, {"small_temporaries", small_temporaries}, {"ordered_in_thread", ordered_in_thread}, {"frees_again", frees_again},
	{"captures_own", captures_own},
	{"heap_later", heap_later}, {"heap_refused", heap_refused}, {"late_memory", late_memory}, {"own_pool", own_pool}, {"small_copies", small_copies}, {"swapped", swapped},
	{"locks_while_waiting", locks_while_waiting}, {"forks_while_waiting", forks_while_waiting},
	{"works_in_child_while_waiting", works_in_child_while_waiting}, {"makes_event_while_waiting", makes_event_while_waiting},
	{"reads_before", reads_before}, {"writes_around", writes_around}, {"margins", margins}, {"margins_move", margins_move}, {"beyond_boxes", beyond_boxes},
	{"last_errors", last_errors}, {"cleared", cleared}, {"last_errors_after_a_fault", last_errors_after_a_fault},
	{"interrupted", interrupted}, {"interrupted_while_waiting", interrupted_while_waiting},
	{"interrupted_while_growing", interrupted_while_growing},
	{"explicit_memory", explicit_memory}, {"explicit_waits", explicit_waits}, {"over_later", over_later},
	{"shown", shown}, {"unattended", unattended}, {"copies_unattended", copies_unattended}, {"launch_rate", launch_rate}, {"burst_rate", burst_rate}, {"free_memory", free_memory}, {"seems", seems}, {"resumes_in_a_thread", resumes_in_a_thread}, {"far_ahead", far_ahead}, {"behind_the_host", behind_the_host}, {"frees_behind_the_host", frees_behind_the_host}, {"ordered_rounds", ordered_rounds}, {"windowed", windowed},
	{"rests_beside", rests_beside}, {"flags_beside", flags_beside}, {"graph_while_growing", graph_while_growing},
};

// Programs whose second argument says how they do what they do.
static const struct {
	const char *name;
	void (*run)(const char *way);
} ways[] = {
	{"reuse", reuse}, {"waits", waits}, {"after", after}, {"wrong", wrong}, {"set", set},
	{"reset_after", reset_after}, {"another_waits", another_waits},
	{"frees", frees}, {"gone", gone}, {"keeps", keeps}, {"faults_behind", faults_behind}, {"chooses", chooses},
	{"frees_while_growing", frees_while_growing}, {"launches_while_reserving", launches_while_reserving}, {"loads_while_waiting", loads_while_waiting}, {"calls_part", calls_part},
	{"beyond", beyond}, {"beside_part", beside_part}, {"asks_late", asks_late}, {"in_flight", in_flight}, {"revoked", revoked},
	{"driven", driven}, {"grows", grows}, {"swapped", swapped}, {"leaves_work", leaves_work}, {"random", random_programs}, {"gaps", gaps}, {"hogs", hogs}, {"within", within}, {"deep", deep}, {"stops", stops}, {"many_handles", many_handles}, {"moved", moved},
};

int main(int count, char **arguments)
{
	if (getenv("LAUNCHES_FIRST") != nullptr)
		TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	for (const auto &w : ways)
		if (count == 3 && strcmp(w.name, arguments[1]) == 0) {
			w.run(arguments[2]);
			return 0;
		}
	for (const auto &p : programs)
		if (count == 2 && strcmp(p.name, arguments[1]) == 0) {
			p.run();
			return 0;
		}
	return 2;
}
