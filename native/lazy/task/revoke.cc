// revoke.cc: the scheduler takes device memory back, and gives it again.
//
// A revocation comes on the thread that reads the connection. It closes the gate of calls that give
// the device work (submit_gate.h), waits for the calls that are inside and then for the device, and moves
// chunks to the host. All of this is bounded by the revocation's deadline, and undone when the
// deadline passes: the answer is busy. The next call that gives the device work asks the scheduler, and waits
// until memory is back on the device. What has moved and has not come back is mapped from the host while the process may give work,
// so an access that nobody foresaw is slow and not wrong.
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "abi/clock.h"
#include "abi/lock.h"
#include "abi/symbols.h"
#include "device/device.h"
#include "device/drain.h"
#include "device/driver.h"
#include "device/serving.h"
#include "memory/memory.h"
#include "memory/swap.h"
#include "probe/activity.h"
#include "probe/client.h"
#include "program/mode.h"
#include "program/objects.h"
#include "burst.h"
#include "bypass.h"
#include "explicit.h"
#include "managed.h"
#include "move.h"
#include "revoke.h"
#include "stop.h"
#include "stream_capture.h"
#include "submit_gate.h"
#include "task.h"

namespace lazy {

static std::atomic<bool> must_ask{false};
static std::atomic<bool> prepared{false}; // the scheduler knows that this process can give memory back
static std::atomic<bool> welcomed{false}; // the run moves memory in our chunks
static std::atomic<uint64_t> window{0};   // ns
static std::atomic<bool> bursts{false};   // the permission ends with each

uint64_t window_ns() { return window.load(std::memory_order_relaxed); }

bool ends_bursts() { return bursts.load(std::memory_order_relaxed); }

bool revoked() { return must_ask.load(std::memory_order_relaxed); }

bool can_be_revoked() { return prepared && welcomed; }

struct Holdings {
	uint64_t resident, fixed; // bytes on the device, and of these, that cannot move
};

// What is charged and has no range is the CUDA runtime's, and stays on the device. What is to have a range and has none yet
// is not there, and can leave it soon.
static Holdings holdings()
{
	const uint64_t charged = Task::process().charged(), ranges = range_bytes() + Task::process().making();
	const uint64_t others = charged > ranges ? charged - ranges : 0;

	return {resident_bytes() + others, resident_bytes() - movable_bytes() + others};
}

static uint64_t over(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

// Unmade is what the scheduler has granted and has no memory yet. It counts as on the device, unless it was given back.
struct Unmade {
	uint64_t counted, given; // bytes
};

// unmade needs `lock`.
static Unmade unmade()
{
	const case_task task = Task::process().grant();
	const client_count counted = client_counted(&task);
	const uint64_t all = over(Task::process().making(), over(Task::process().charged(), counted.charged));
	const uint64_t made = over(counted.charged, away_bytes() + all), room = over(counted.resident, made);

	return {std::min(all, room), over(all, room)};
}

void show_holdings()
{
	if (!prepared)
		return;
	const Holdings now = holdings();
	show_calls(); // by now the scheduler has the page
	activity_holds(now.resident, referenced_bytes() + active_managed(), now.fixed);
}

static bool unable(client_revoked *answer, const char *why)
{
	answer->outcome = CASE_REVOKED_UNABLE;
	snprintf(answer->why, sizeof answer->why, "%s", why);
	return true;
}

// must_resume: the revocation takes the permission too.
static bool must_resume(const client_revocation &r) { return r.action == CASE_REVOKE_YIELD || r.action == CASE_REVOKE_STOP; }

static bool can_do(const client_revocation &r)
{
	return (must_resume(r) || r.action == CASE_REVOKE_EVICT || r.action == CASE_REVOKE_ADVISE || r.action == CASE_REVOKE_MOVE) && r.flags == 0;
}

// stays says why nothing of the process can be taken, or why it cannot be moved. "": it can.
static std::string stays(const client_revocation &r)
{
	const std::string why = bypass();
	return why.empty() && r.action == CASE_REVOKE_MOVE ? bound_by() : why;
}

// give_unused gives back what a footprint has too much, and returns how much of that counts as on the device.
static uint64_t give_unused()
{
	const case_task task = Task::process().grant();
	const client_count before = client_counted(&task);
	const uint64_t unused = Task::process().release_unused(), there = over(before.charged, unused + away_bytes());

	return std::min(unused, over(before.resident, there));
}

// evict moves memory while nothing of the process runs. `lock` is held, and the gate is closed. `unused` bytes are given
// back already. With its permission the process also gives back what is not made yet: a call that makes memory needs permission,
// and the process asks for as much with it. So it is with room for memory that is to come back and has not come yet.
static void evict(const client_revocation &r, uint64_t unused, client_revoked *answer)
{
	const bool yields = must_resume(r);
	const Unmade before = unmade();
	const uint64_t room = yields ? room_on_device() : 0, lacks = over(r.bytes, unused), of_room = std::min(room, lacks);
	const uint64_t given = yields ? std::min(before.counted, lacks - of_room) : 0;
	client_move out = {};

	await_evicted(lacks - of_room - given, home(), yields, &out);
	answer->outcome = CASE_REVOKED_DONE;
	answer->freed_bytes = out.bytes;
	answer->given_bytes = unused + of_room + given;
	if (yields || !revoked()) { // growth may have been granted meanwhile
		const Unmade now = unmade();
		answer->movable_bytes = over(now.counted + now.given, before.given + given) + room - of_room;
	}
	answer->copy_ns = out.copy_ns;
	answer->bookkeeping_ns = out.bookkeeping_ns;
	if (yields)
		must_ask.store(true);
}

// Attempt is one of the attempts to serve a revocation.
struct Attempt {
	uint64_t patience_ns; // how long it waits for calls inside the gate
	uint64_t began_ns;    // when the first of them began; 0: none has
	uint64_t unused;      // bytes that the attempts have given back whatever ran
};

// serve is a revocation with `lock` held. The answer is busy, unless it is changed. false: another attempt is to follow, because a call
// has stayed inside the gate, which may need `lock` before it is over.
static bool serve(const client_revocation &r, uint64_t deadline_ns, Attempt *attempt, client_revoked *answer)
{
	const CUcontext context = context_of_task();
	CUresult result = CUDA_SUCCESS;

	if (attempt->began_ns == 0)
		attempt->began_ns = now_ns();
	if (!welcomed)
		return unable(answer, "the run moves memory in chunks of another size");
	if (!can_do(r)) // prepare_revocation has not announced it
		return unable(answer, ("this library cannot do action " + std::to_string(r.action) + " with flags " + std::to_string(r.flags)).c_str());
	if (const std::string who = exports(); !who.empty())
		return unable(answer, who.c_str());
	if (const std::string why = stays(r); !why.empty())
		return unable(answer, why.c_str());
	if (is_explicit(r.task))
		return unable(answer, "the program itself has asked for the task");
	if (Task::process().grant().id != r.task || Task::process().phase() != Phase::bound || context == nullptr)
		return true; // the task is over, or has just begun
	if (cover_of(Task::process().device()).tasks > 0) // what is whose memory is not known
		return true;
	use_device(); // this thread's first call of the runtime would be about another
	const bool moves = r.action == CASE_REVOKE_MOVE;
	if (!moves)
		attempt->unused += give_unused(); // whatever runs
	ClosedSubmitGate closed;
	if (!closed.await_empty(std::min(deadline_ns, now_ns() + attempt->patience_ns)))
		return now_ns() >= deadline_ns;
	if (being_captured()) // a wait for the device would break the capture
		return true;
	const bool stops = r.action == CASE_REVOKE_STOP;
	const auto drained = [&] { return await_drained(context, deadline_ns, &result); };
	if (stops && !stop_kernel(deadline_ns))
		return true;
	if (!(stops ? await_until(deadline_ns, drained) : drained())) // an earlier wait for the kernel may be about to end
		return true;
	answer->drain_ns = now_ns() - attempt->began_ns;
	if (result == CUDA_ERROR_DEINITIALIZED) // the process is ending
		return true;
	activity_ended(activity_mark());
	if (result != CUDA_SUCCESS)
		return unable(answer, ("the device has failed with error " + std::to_string(result)).c_str());
	if (const std::string why = stays(r); !why.empty()) // since the gate was open
		return unable(answer, why.c_str());
	if (driver()->set_current(context) != CUDA_SUCCESS)
		return unable(answer, "the context is gone");
	moves ? move_task(r, deadline_ns, answer) : evict(r, attempt->unused, answer);
	return true;
}

static uint64_t movable_of(uint64_t task) { return is_explicit(task) ? 0 : movable_bytes(); }

// begin takes `lock`, unless the process is about to make memory that it is asked for.
static bool begin(const client_revocation &r)
{
	if (pthread_mutex_trylock(&lock) != 0)
		return false;
	if (must_resume(r) || revoked() || movable_bytes() >= r.bytes || unmade().counted == 0)
		return true;
	pthread_mutex_unlock(&lock);
	return false;
}

static void revoke(const client_revocation *r, client_revoked *answer)
{
	const uint64_t deadline_ns = now_ns() + uint64_t{r->deadline_ms} * 1000000u;

	if (r->action == CASE_REVOKE_ADVISE && r->bytes == 0 && r->flags == 0) { // the next launch asks for the memory
		answer->outcome = CASE_REVOKED_DONE;
		answer->movable_bytes = movable_of(r->task);
		return;
	}
	answer->outcome = CASE_REVOKED_BUSY;
	bool served = false;
	for (Attempt a = {10 * 1000000u, 0, 0}; !served && await_until(deadline_ns, [r] { return begin(*r); }); a.patience_ns *= 2) {
		if (const Serving serving; serving.exits)
			served = true;
		else
			served = serve(*r, deadline_ns, &a, answer);
		if (served)
			answer->movable_bytes += movable_of(r->task);
		pthread_mutex_unlock(&lock);
		if (!served)
			usleep(a.patience_ns / 10 / 1000); // for the call that waits for `lock`
	}
	if (!served)
		answer->movable_bytes = movable_of(r->task);
	answer->lost_ns = take_lost();
}

static void welcome(const client_welcome *w)
{
	welcomed.store(use_chunks(w->chunk_bytes));
	window.store(uint64_t{w->window_us} * 1000u);
	bursts.store(w->bursts);
	if (welcomed)
		start_looks();
}

// A process without memory may not have chosen what the driver is to see (device/confine.cc), so the driver must not start here.
static void offer(const client_space *space)
{
	if (welcomed && resident_bytes() + away_bytes() > 0)
		offer_host_chunks(*space, home());
	std::for_each(space->files, space->files + space->file_count, close);
}

void forget_revocation() { must_ask.store(false); }

void prepare_revocation()
{
	static const client_hooks hooks = {welcome, revoke, offer, return_offered, CASE_CAN_STOP | CASE_CAN_ADVISE | CASE_CAN_MOVE};
	static const bool can = asked_to_move() && client_can_evict(&hooks);

	prepared.store(can);
}

// In a child of fork nothing is revoked, and the task may have ended.
bool some_memory_bare() { return bare() && revoked(); }

void need_mapped()
{
	if (!bare())
		return;
	Locked locked;
	if (some_memory_bare())
		await_mapped(home());
}

void renew_revocation()
{
	renew_serving();
	renew_drain();
	renew_looks();
	renew_offered();
	must_ask.store(false);
}

// A revocation may have come between the scheduler's grant and the way back.
uint64_t room_on_device()
{
	const case_task task = Task::process().grant();
	const client_count counted = client_counted(&task);
	const uint64_t there = counted.charged - std::min(counted.charged, away_bytes());

	return counted.resident - std::min(counted.resident, there);
}

// need is what the latest launches reference, and what was granted and is not made yet. The launch that waits is one of them.
static client_need need()
{
	Locked locked;
	const case_task task = Task::process().grant();
	const Wanted w = wanted();
	const uint64_t charged = client_counted(&task).charged, making = Task::process().making();

	const uint64_t on_host = over(w.on_host, room_on_device());

	return {on_host + unmade().given, std::min(w.bytes + making, charged), on_host};
}

void give_up_permission()
{
	const case_task task = Task::process().grant();

	must_ask.store(true);
	client_yield(&task);
}

void end_burst()
{
	const case_task task = Task::process().grant();

	if (client_end_burst(&task))
		must_ask.store(true);
}

// Calls that only look at memory are soon over. One that waits for something else does not look meanwhile.
static const uint64_t look_ns = 1000000000u;

// One thread asks for all. A refusal leaves the memory where it is: the program goes on with memory
// that is mapped from the host.
void await_permission()
{
	Locked one_at_a_time(Task::process().asking());
	while (revoked()) {
		case_task task;
		int answer;
		hide_resumed();
		{
			Locked locked;
			task = Task::process().grant();
		}
		{
			Interruptible here;
			answer = client_await_resume(&task, need);
		}
		Locked locked;
		if (Task::process().grant().id != task.id) // it has ended meanwhile
			continue;
		Task::process().tell_released();
		const bool permitted = answer == CASE_OK && client_permitted(&task);
		if (answer == CASE_OK && !permitted) // it was taken again
			continue;
		if (permitted)
			show_resumed();
		ClosedSubmitGate closed;
		closed.await_empty(now_ns() + look_ns);
		client_move in = {};
		CUcontext own = nullptr; // perhaps none, in a thread's first call
		driver()->get_current(&own);
		driver()->set_current(context_of_task());
		const bool away = away_bytes() > 0;
		if (away || bare())
			fetch(permitted ? room_on_device() : 0, home(), &in);
		driver()->set_current(own);
		if (permitted && away)
			client_moved(&task, CASE_MOVED_IN, &in);
		begin_burst();
		must_ask.store(false);
	}
}

} // namespace lazy
