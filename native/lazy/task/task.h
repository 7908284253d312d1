// task.h: the tasks that the lazy runtime makes (task.cc, binding.cc).
//
// Under task binding the process has one task. It is unbound until its first kernel launch,
// or until a call that needs a device at once. Until then allocations are reserved addresses,
// and what fills them is recorded. The task then asks the scheduler for a device, puts memory
// behind the addresses, and replays the record in program order. From then on calls go
// straight to the CUDA runtime, and allocations are accounted. When the last object is freed
// the task ends, and is unbound again. (CASE, PPoPP'22, sections 3.1.2, 3.1.3 and 3.2;
// docs/design/lazy-runtime.md.)
//
// A process that chooses devices itself has one task for each device that it uses.
//
// A name that begins with await_ says that the function may wait for the scheduler or for a
// GPU. No other function of the lazy runtime does, except the overridden and forwarded calls of
// CUDA and the templates that they are made of. Taking `lock` lasts as long as its holder waits.
#ifndef CASE_LAZY_TASK_H
#define CASE_LAZY_TASK_H

#include <pthread.h>

#include <atomic>

#include "abi/abi.h"
#include "abi/symbols.h"
#include "probe/case.h"
#include "program/mode.h"
#include "explicit.h"
#include "submit_gate.h"

namespace lazy {

// Shape is that of the launch that makes the task bind; zero: nothing is known yet.
struct Shape {
	uint64_t blocks;
	uint32_t threads_per_block, blocks_per_sm;
};

// The phases of a task under task binding, in their order.
enum class Phase {
	unbound, // nothing is granted: allocations are addresses, calls are recorded
	asking,  // a thread waits for the scheduler, and holds `lock`
	granted, // the device is known, and nothing is on it yet
	filling, // memory is mapped, and the record is replayed
	bound    // calls go to the device
};

// Ties are the reasons why the task must stay on its device once it has had one: state that
// the process has in its context there. Of each kind the first call since the last reset is known. A move makes the first three
// again. Confinement (device/confine.h) and open explicit tasks (explicit.h) tie the task too.
enum class Tie {
	handle,   // streams and events
	variable, // its value is on the device
	limit,    // of the context, or an attribute of a kernel (device/settings.h)
	graph,
	pool,
	context,  // made through the driver, by the program or a library
	call,     // any other call that may leave state on the device
	kinds
};

class Ties {
public:
	void add(Tie kind, const char *call)
	{
		const char *none = nullptr;
		first_[static_cast<int>(kind)].compare_exchange_strong(none, call);
	}
	bool any() const { return first_of(0) != nullptr; }
	// lasting is a call that arose a tie which a move (move.h) cannot make again; nullptr: none has.
	const char *lasting() const { return first_of(static_cast<int>(Tie::graph)); }
	void clear()
	{
		for (auto &call : first_)
			call.store(nullptr);
	}

private:
	const char *first_of(int kind) const
	{
		for (; kind < static_cast<int>(Tie::kinds); kind++)
			if (const char *const call = first_[kind]; call != nullptr)
				return call;
		return nullptr;
	}
	std::atomic<const char *> first_[static_cast<int>(Tie::kinds)] = {};
};

// ContextMemory is what the context keeps until it ends, beside objects. The reserve for contexts has room for local memory of
// CUDA's default limit.
struct ContextMemory {
	uint64_t heap = 8 << 20; // bytes: the limit of the device heap (cudaLimitMallocHeapSize); here CUDA's default
	uint64_t local = 0;      // bytes: local memory beyond the default (launch/local_memory.h)
	uint64_t granted = 0;    // bytes, to the task

	uint64_t bytes() const { return heap + local; }
};

// Missing is how many bytes are lacking, which is not reported yet. 0: the error is another.
struct Missing {
	size_t device = 0;
	uint64_t host = 0; // in the swap area
};

// Account is what the scheduler granted to a task, and what of the grant is in use.
struct Account {
	case_task grant = {};          // id 0: the scheduler has granted nothing
	uint64_t granted = 0;          // bytes
	uint64_t large = 0, small = 0; // bytes in use, by the size of their allocation
	uint64_t making = 0;           // of these, of memory that moves once it is made, and is not made yet
	uint64_t objects = 0;
	uint64_t released = 0;  // bytes that were granted, and that the scheduler has to be told of
	uint64_t reserved = 0; // bytes that the program itself keeps for later allocations
	ContextMemory context;

	bool held() const { return grant.id != 0; }
	void add(int more_objects, int64_t bytes);
	uint64_t in_use() const;
	uint64_t wanted(const Cover &c) const;
	// missing is how much of what is in use, and `more` bytes, nobody has granted. What an
	// explicit task asks for is a sum of sizes, so rounding does not count there.
	uint64_t missing(const Cover &c, uint64_t more = 0) const;
	// context_missing is the same for more memory of the context than the default.
	uint64_t context_missing(const Cover &c) const;
	bool answered(const Cover &c) const { return held() || c.tasks > 0; }
	// lasts: the grant covers more than objects, so it stays when the last object is freed.
	bool lasts() const;
};

class Task {
public:
	// process is the task of task binding. here is the task of the calling thread's device.
	// on is the task of a device as the program counts them; nullptr: the program has no such
	// device.
	static Task &process() { return tasks[0]; }
	static Task &here();
	static Task *on(int device);
	// paying_for is the task that pays for memory of a device of the driver's. nullptr: none does. of_context is the same for
	// the device of the thread's context.
	static Task *paying_for(CUdevice device);
	static Task *of_context();

	int device() const; // as the program counts devices
	Phase phase() const { return phase_.load(std::memory_order_acquire); }
	Ties ties;

	// await_bound takes the task of task binding to Phase::bound; `lock` must be held. `more`
	// bytes are about to be allocated. An error leaves the task as it was, or unbound.
	cudaError_t await_bound(const Shape &shape = {}, uint64_t more = 0, bool managed = false);

	// await_grant takes it to Phase::granted, and settles the device without a call of the
	// CUDA runtime, so that driver/context_gate.cc can ask from inside one. The program may be
	// confined to the device (device/confine.h). The caller is to fail with the
	// error. A signal handler during the wait gets cudaErrorNotPermitted.
	cudaError_t await_grant(const Shape &shape, uint64_t more, bool managed);

	// await_explicit asks for a task of the program (explicit.h) that may go to any device,
	// because the process has nothing on a device: with the task the process moves to the
	// granted device. *answer is the answer, as of case_task_ask. false: the process has its
	// device, and nothing was asked.
	bool await_explicit(const case_need &need, case_task *granted, int *answer);

	// await_charge makes room for an object of `bytes`, and asks the scheduler for what
	// exceeds the grant. uncharge gives the room back when the object is freed; the last
	// object ends the task (see note_quiescent). take_back undoes a charge for what was not allocated:
	// it ends no task, because nobody has waited for the task's kernels.
	cudaError_t await_charge(const char *call, uint64_t bytes, bool managed = false);
	void uncharge(uint64_t bytes);
	void take_back(uint64_t bytes);
	// await_range is await_charge for memory that is made next (allocate_backed), and can move then. Until it is made
	// (account::made) it counts neither as on the device nor as what cannot leave it.
	cudaError_t await_range(const char *call, uint64_t bytes);
	// await_lend gives bytes of a charged object back to the scheduler, which grants them to others. It returns how many had been
	// granted. await_lent asks for them again; an error takes back the charge, but for a
	// pool, which charges what it has (shortage.h).
	enum class Memory { made, range, pool }; // how it was charged: await_charge, await_range, await_pool_charge
	uint64_t await_lend(uint64_t bytes);
	cudaError_t await_lent(const char *call, uint64_t bytes, uint64_t lent, Memory memory);
	// count adds objects and bytes of a task that is not bound yet.
	void count(int objects, int64_t bytes);
	bool last_object() const; // freeing one more ends the task
	bool has_only(uint64_t objects) const;
	// note_quiescent: a wait for all of the task's device is over, which began after the quiescence.
	// If the quiescence goes on, nothing runs, and the task may end (submit_gate.h). If not, the last
	// object does not end the task. would_end: nothing is left of such a task, and a wait that
	// begins now would end it.
	void note_quiescent(const Quiescence &quiescence);
	bool would_end() const;
	uint64_t in_use() const;  // bytes
	uint64_t charged() const; // the same with the context's memory
	uint64_t granted_unused() const; // bytes
	uint64_t making() const;  // of these, of await_range, and not made yet; perhaps not granted yet
	void made(uint64_t bytes);
	// release_evicted gives back bytes that were on the host when they were freed: the scheduler counts them as
	// the task's, and not as on the device. Nothing may take their place without being asked for.
	void release_evicted(uint64_t bytes);
	// release_unused gives back what a footprint has too much, and returns how many bytes. A program of which no allocation
	// was seen may use all.
	uint64_t release_unused();
	void tell_released();     // by the thread that holds `asking`, while the task has no request outstanding
	case_task grant() const { return account_.grant; } // `lock` is held
	void move_grant(int device, const uint8_t uuid[16]); // the scheduler's device is another now. `lock` is held
	// asking is held by the thread that asks for this task's grant, for more, or to resume.
	pthread_mutex_t &asking() { return growing_; }
	bool held() const;        // the scheduler has granted something
	// covered: explicit tasks have room for all that is in use on the device and for `more`
	// bytes, so the device needs no task of the lazy runtime.
	bool covered(uint64_t more = 0) const;

	// await_launch asks for what is in use on the device and not granted yet, if anything.
	cudaError_t await_launch();

	// await_reserve makes the grant large enough for `bytes` more than the program has
	// reserved so far, and keeps it that large: allocations draw from it. unreserve gives the
	// bytes back, except those in use. false: the program has not reserved so much.
	cudaError_t await_reserve(uint64_t bytes, uint32_t wait_ms);
	bool unreserve(uint64_t bytes);

	// await_context_memory notes what a part of the context's memory is to be, which a task asks for with its objects. A
	// task that is held grows by what is missing. restore_context_memory undoes it where CUDA did not make the
	// change; *was is the memory before. What the task grew by is then there for objects.
	cudaError_t await_context_memory(const char *call, uint64_t ContextMemory::*part, uint64_t bytes, ContextMemory *was);
	void restore_context_memory(uint64_t ContextMemory::*part, const ContextMemory &was);
	// await_local_memory is the same for a kernel that needs so many bytes of local memory, if the context has fewer.
	cudaError_t await_local_memory(const char *call, uint64_t bytes, ContextMemory *was);

	// shape_is_new: the kernel is the task's first whose occupancy is known, or it has more than
	// twice the warps that the scheduler knows. reshape tells the scheduler.
	bool shape_is_new(uint64_t blocks, uint32_t threads_per_block) const;
	void reshape(const Shape &shape);

	// lasts_with_process: nobody knows when the task's device has no work, because the program does without the shared
	// runtime.
	static bool lasts_with_process() { return one_device() && !has_runtime(); }

	void reset();              // cudaDeviceReset
	static void renew_tasks(); // in a child of fork

private:
	static Task tasks[max_devices];

	// binding.cc
	bool must_stay() const;
	case_need need(uint64_t bytes) const;
	cudaError_t await_settled(const case_need &need);
	cudaError_t await_reserved_grant(uint32_t wait_ms);
	cudaError_t await_filled(Missing *missing);

	// task.cc
	cudaError_t await_answer(case_need need);
	cudaError_t await_answer_here(uint64_t bytes, uint32_t wait_ms = CASE_WAIT_DEFAULT);
	cudaError_t await_more(uint64_t bytes, uint64_t *granted, uint32_t wait_ms = CASE_WAIT_DEFAULT);
	cudaError_t await_charged(const char *call, uint64_t bytes, bool managed, Memory memory);
	cudaError_t await_room(const char *call, uint64_t bytes, Memory memory);
	void enter(uint64_t bytes, Memory memory);
	void take_out(uint64_t bytes, Memory memory, bool others);
	cudaError_t await_cover(uint64_t more);
	cudaError_t await_open(uint64_t more = 0, bool managed = false);
	uint64_t context_to_ask() const;
	bool has_local(uint64_t bytes, ContextMemory *now) const;
	cudaError_t refused_local(uint64_t bytes) const;
	uint64_t to_begin_on_host(const case_need &need);
	bool settled(uint64_t *more) const;
	bool fits(uint64_t bytes, Memory memory);
	void close();
	static void show_use(); // to the scheduler
	void end_unused();

	std::atomic<Phase> phase_{Phase::unbound};
	Account account_;
	uint64_t stay_ = 0;         // bytes of the latest request that may begin on the host
	bool begins_whole_ = false; // of the next: the swap area has no room for them
	// What the scheduler refused is not asked for again, unless a wait ended and the program
	// has taken that error.
	struct Refusal {
		uint64_t bytes = 0; // 0: nothing is refused
		cudaError_t error = cudaSuccess;

		void note(uint64_t refused, cudaError_t why);
		bool stands_for(uint64_t wanted) const;
	};
	Refusal refusal_, local_refusal_; // of the grant, and of local memory for the task that is held
	Quiescence quiescent_; // the last one after which a wait has succeeded
	std::atomic<bool> unused_{false}; // nothing is left of the task, but work may be under way
	std::atomic<uint64_t> announced_{0}; // warps of the largest kernel that the scheduler knows
	std::atomic<bool> told_{false};      // the scheduler knows the occupancy of a kernel
	// One thread at a time asks for this task's grant, or for more. `growing_` is taken before
	// `lock`, and held during the wait.
	pthread_mutex_t growing_ = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
};

// tie says that the process has state on its device that stays there when the task ends. `call` is where it arose. tie_here is what a call
// begins with that makes such state outside of the gate (submit_gate.h): if the process moves now, the call waits.
inline void tie(Tie kind, const char *call) { Task::process().ties.add(kind, call); }
inline void tie_here(Tie kind, const char *call)
{
	tie(kind, call);
	await_open_submit_gate();
}

// saw_wait_end: the program has taken the error of a wait that ended, so it may ask again.
void saw_wait_end();

// deferring: task binding, and the task is not bound.
inline bool deferring() { return one_device() && Task::process().phase() != Phase::bound; }

// await_or_defer is deferring for a call that enters the library. A program that is not
// self-contained defers nothing: its task is bound first.
bool await_or_defer();

// await_device is what each call does that is not deferred: it binds the task with what is
// known, and makes the granted device the calling thread's.
cudaError_t await_device();

// await_context is await_device for a call that needs the device's context, but nothing of a
// task. The context outlives its tasks. So only the first such call waits.
cudaError_t await_context();

// await_confined asks for the device of a program that is to be confined (device/confine.h), which must
// happen before the driver is initialized.
cudaError_t await_confined();

} // namespace lazy
#endif
