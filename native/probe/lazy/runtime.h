// runtime.h: the state of the lazy runtime, one for each process.
//
// The process is unbound until its first kernel launch (or a call that needs a
// device at once): allocations are reserved addresses, what fills them is
// recorded. bind() asks the scheduler for a device, puts memory behind the
// addresses and replays the record in program order. From then on calls go
// straight to the CUDA runtime, with allocations accounted. When the last object
// is freed the task ends and the process is unbound again.
// (CASE, PPoPP'22, sections 3.1.2, 3.1.3 and 3.2; docs/lazy-runtime.md.)
#ifndef CASE_LAZY_RUNTIME_H
#define CASE_LAZY_RUNTIME_H

#include <pthread.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../case.h"
#include "real.h"

namespace lazy {

// lock guards everything below that is not atomic. It is recursive, because a
// replayed call can come back through an overridden one, and it is held while
// the process waits to be bound: nothing of it can go on then. It is never held
// while a bound call runs, nor while a pinned process waits for one of its devices.
extern pthread_mutex_t lock;

// registering guards what CUDA is told of the program's kernels and variables: under the
// loader's lock, which the holder of `lock` needs, for dlsym, when its wait is over.
extern pthread_mutex_t registering;

// ---- signals.cc

// While a thread holds a lock, handlers of signals do not run in it. They may between the
// two steps of taking and of giving it back, which is why each lock is recursive.
void hold_signals();
void let_signals();

class Locked {
public:
	explicit Locked(pthread_mutex_t &what = lock) : what_(what)
	{
		pthread_mutex_lock(&what_);
		hold_signals();
	}
	~Locked()
	{
		pthread_mutex_unlock(&what_);
		let_signals();
	}
	Locked(const Locked &) = delete;
	Locked &operator=(const Locked &) = delete;

private:
	pthread_mutex_t &what_;
};

// Interruptible is around a wait for the scheduler: handlers run there, whatever is held.
class Interruptible {
public:
	Interruptible();
	~Interruptible();
	Interruptible(const Interruptible &) = delete;
	Interruptible &operator=(const Interruptible &) = delete;

private:
	const unsigned held_;
};

// The locks of account.cc, objects.cc and confine.cc, made anew in a child of fork.
void renew_growing(), renew_looking(), renew_choosing();

// ---- mode.cc: how this process was started

enum class Mode {
	unknown, // until somebody asks; mode() never returns it
	passive, // the device was chosen before the process began: report errors only
	pinned,  // the program chooses devices itself: account, defer nothing
	task     // bind at the first launch
};
// mode is settled when it is first asked for. A program that asks for tasks itself chooses
// devices itself.
Mode mode();

// chooses_devices is called where the program asks for a task. false: the mode is settled as
// task, so the program knows its one device as 0.
bool chooses_devices();

// guarded: nothing is mapped beside an allocation, so that a kernel that leaves it by
// more than the rest of its granule faults (CASE_GUARD).
bool guarded();

// Memory comes in granules of 2 MiB, but mixes and explicit tasks state sums of sizes. The
// difference is this much, which is enough for eight objects.
inline const uint64_t rounding = 16 << 20; // bytes

// What the run declares that the job needs (CASE_FOOTPRINT), with room for
// rounding; zero if nothing.
struct Footprint {
	uint64_t bytes, blocks;
	uint32_t threads_per_block;
};
const Footprint &declared();

// Bytes of host memory that may be recorded before the process binds early.
uint64_t record_limit();

// ---- binding.cc

extern std::atomic<bool> bound; // in the modes other than task: always true

// The launch that makes the process bind, or nothing known yet.
struct Shape {
	uint64_t blocks;
	uint32_t threads_per_block, blocks_per_sm;
};

// bind makes the process bound, whatever it takes; the lock must be held.
// `more` bytes are about to be allocated. Returns success or why it cannot be;
// the process is then as unbound as before.
cudaError_t bind(const Shape &shape = {}, uint64_t more = 0, bool managed = false);

// ask is bind's first part: it waits for the grant, and settles the device
// without a call of the CUDA runtime, so that gate.cc can ask from inside one. A
// program that is not self-contained is confined to it (confine.cc). Its error is
// the caller's to fail with. A handler that comes while it waits gets
// cudaErrorNotPermitted.
cudaError_t ask(const Shape &shape, uint64_t more, bool managed);

// ask_ahead is the same for a task that the program itself asks for, with what it has
// reserved in its account.
cudaError_t ask_ahead(uint32_t wait_ms);

// enter is what each call does that is not deferred: it binds with what is
// known, and makes the granted device the calling thread's.
cudaError_t enter();

// enter_context is enter for what needs the device's context, which outlives its tasks,
// but nothing of a task: such as to destroy what a task has left.
cudaError_t enter_context();

// use_device makes the granted device this thread's, unless it is already; a
// context of the program's own on that device stays current.
void use_device();
// choose_device is cudaSetDevice of the granted device: nothing else stays current.
cudaError_t choose_device();

// Ordinals: a program under task binding sees one device, 0. "Real" ones are the
// driver's in this process. The scheduler has its own, which counts all devices of
// the run: they differ once the process is confined. A device that the program does
// not see is none of the driver's either, but the granted one's real ordinal, which
// the driver may have told it, stays. Negative values mean the host or nothing.
int visible_to_real(int device);
int real_to_visible(int device);
bool one_device(); // whether it is so
bool deferring();  // task binding, and unbound
bool has_context(); // it has been bound before, since any reset
int home();        // the driver's ordinal of this process's device, or -1
int scheduled();   // the scheduler's ordinal of the device granted last, or -1

// keep_device says that the process has state on its device that cannot move.
void keep_device();
// saw_wait_end says that the program has taken the error of a wait that ended: it may ask again.
void saw_wait_end();

// launched notes a kernel launch's shape and sends it where it is news.
void launched(const void *kernel, uint64_t blocks, uint32_t threads_per_block, size_t shared_bytes);

inline uint64_t product(dim3 d) { return static_cast<uint64_t>(d.x) * d.y * d.z; }

// working says that this thread's device has work whose errors nobody has seen yet;
// whoever waits for all of it says idle.
// Work in the legacy default stream alone is over when what waits for that stream is.
void working();          // in whatever stream
void working_in_order(); // in the legacy default stream
void other_streams();    // there is work elsewhere, or may be
void working_soon();
void idle();
bool at_work();

// waited says that a wait for all of this thread's device has succeeded, which began when
// before_wait was read: the scheduler then knows that nothing runs (activity.h).
// waited_in_order says the same of the legacy default stream.
uint64_t before_wait();
void waited(uint64_t before);
void waited_in_order(uint64_t before);

// blocks_per_sm is the occupancy of a kernel that is about to be launched, as
// far as it can be told without a context; 0: unknown.
uint32_t blocks_per_sm(const void *kernel, uint32_t threads_per_block, size_t shared_bytes);

uint32_t occupancy_from_code(const void *kernel, uint32_t threads_per_block, size_t shared_bytes); // occupancy.cc

bool equal_devices(); // whether one device can answer for all
void forget_device(); // cudaDeviceReset

// flags of cudaSetDeviceFlags, applied when the context is made.
void keep_flags(unsigned flags);

// ---- account.cc: the task's memory

struct Need {
	Shape shape;
	uint64_t bytes;
	bool managed, same_device;
	int device; // with same_device: the scheduler's ordinal
	uint32_t wait_ms; // CASE_WAIT_* of case.h, or milliseconds
};
// open_task asks for the process's one task and waits. *granted names its device,
// with ordinal -1 where nobody schedules.
cudaError_t open_task(const Need &need, case_task *granted);
bool task_is_open();
cudaError_t cover(uint64_t more); // grows an open task to what is in use and more
void abandon_task();           // after a bind that failed
cudaError_t open_for_launch(); // for what is in use on the device and not charged yet, if anything

// charge makes room for an object of `bytes` on the device in use, asking the
// scheduler where that exceeds what was granted, and waits for its answer.
// uncharge gives it back when the object is freed; the last object ends the task.
// take_back undoes a charge for what was not allocated: it ends no task, whose
// kernels nobody has waited for.
cudaError_t charge(const char *call, uint64_t bytes);
void uncharge(int slot, uint64_t bytes);
void take_back(int slot, uint64_t bytes);
// pool_keeps: what is freed to the pool stays its own, so no task ends.
void pool_keeps(cudaMemPool_t pool, bool keeps);
bool last_object(int slot); // freeing one more ends the task
int account_device();       // the slot that charge uses now

// count adds objects and bytes of a task that is not bound yet.
void count(int slot, int objects, int64_t bytes);
uint64_t charged(); // bytes in use
void reset_account(); // cudaDeviceReset

// reserve_ahead makes the slot's task large enough for `bytes` more than the program has
// reserved so far, and keeps it that large: allocations draw from it. give_ahead gives
// them back, but for what is in use; false: not so much is reserved.
cudaError_t reserve_ahead(int slot, uint64_t bytes, uint32_t wait_ms);
bool give_ahead(int slot, uint64_t bytes);
bool has_slot(int device);
inline const int max_devices = 64; // slots

// covered: explicit tasks (explicit.cc) have room for all that is in use on the device, and
// for `more` bytes, so it needs no task of ours.
bool covered(int slot, uint64_t more = 0);

// keep_heap notes the limit of the device heap, which a task asks for with its memory;
// an open one grows by what it has not. restore_heap undoes it, where CUDA did not set
// the limit: *was is what it was. What the task grew by is then there for its memory.
struct Heap {
	uint64_t limit = 8 << 20; // bytes: cudaLimitMallocHeapSize, here its default
	uint64_t granted = 0;     // to the open task
};
cudaError_t keep_heap(const char *call, uint64_t bytes, Heap *was);
void restore_heap(const Heap &was);

// is_news: the kernel is the task's first whose occupancy can be told, or more
// than twice as large as what the scheduler knows.
bool is_news(uint64_t blocks, uint32_t threads_per_block);
void reshape(const Shape &shape);

// ---- explicit.cc: tasks that the program asks for itself

// Cover is what the open ones on a device come to, in bytes.
struct Cover {
	unsigned tasks;
	uint64_t bytes, heap;
};
Cover cover_of(int slot);
bool has_explicit(); // the process has asked for one
void renew_explicit(); // in a child of fork, which holds none of its parent's

// ---- graph_memory.cc: memory that graphs allocate when they are launched

// charge_graph makes room for what a node is about to allocate, graph_has notes
// that it did, and graph_frees that a node, or the program, frees it.
cudaError_t charge_graph(const char *call, uint64_t bytes);
void graph_has(const void *memory, uint64_t bytes);
void graph_frees(const void *memory);
void forget_graphs(); // cudaDeviceReset

// ---- captures.cc: streams that are being captured into a graph

// capturing: what is asked of the stream becomes a node of a graph, says
// cudaStreamIsCapturing, or its _ptsz. It is no stream of an unbound process: to begin a
// capture binds.
using IsCapturing = cudaError_t (*)(cudaStream_t stream, int *status);
bool capturing(cudaStream_t stream, IsCapturing ask);
// being_captured: a stream may be, so nothing can wait for the device. What then
// has to wait is postponed, and released when the program frees something after.
bool being_captured();
void postpone(std::function<void()> release);
void release_postponed();
void forget_capture(cudaStream_t stream); // the real one, before it is destroyed
void forget_captures();                   // cudaDeviceReset

// ---- memory.cc: device memory, addresses first

struct Chunk; // consecutive addresses with one piece of memory behind them, and a margin on either side

struct Allocation {
	uintptr_t base;
	size_t bytes;      // as the program asked
	Chunk *chunk;      // nullptr: the CUDA runtime's own
	int slot;          // where it is charged, if it is the runtime's
	unsigned recorded; // operations in the record that touch it
	bool freed;        // by the program, while still recorded
};

Allocation *find(const void *address); // the allocation it points into, or nullptr
// pending: [address, address + bytes) is inside one allocation without memory.
Allocation *pending(const void *address, size_t bytes);

// strays: [address, address + bytes) begins in addresses that reserve has handed out, or
// beside them, and is not inside one allocation. CUDA refuses to copy and set such a range
// (cudaErrorInvalidValue), but knows only of whole chunks and margins here.
bool strays(const void *address, size_t bytes);
// The same of a box of bytes in pitched memory, where CUDA has nothing else to refuse.
bool strays(const cudaPitchedPtr &memory, const cudaPos &at, const cudaExtent &box);

// reserve makes an allocation without memory. false: the driver cannot, or no
// device has that much: bind and let the CUDA runtime answer.
bool reserve(size_t bytes, void **address);
void adopt(void *address, size_t bytes, int slot); // notes one of the CUDA runtime

// Who holds the allocation that begins at address.
enum class Holder { unknown, runtime, reserved, mapped };
Holder holder_of(const void *address);
// drop forgets the allocation of reserve that begins at address, if there is
// one, and gives back its bytes and its memory.
void drop(const void *address);
// withdraw forgets one that adopt noted, before it is freed; it stays charged.
bool withdraw(const void *address, Allocation *was);
Allocation *recorded_at(uintptr_t base);
void release_recorded(Allocation *a); // an operation that touched it is gone
cudaError_t map_all(int device);      // puts memory behind everything reserved
void unmap_all();                     // takes it away again; contents are lost
void forget_memory();                 // cudaDeviceReset
bool small(size_t bytes);             // shares a granule with others

// page_locked: the program asked for this host memory to be page-locked before
// there was a context (calls_host.cc).
bool page_locked(const void *memory, size_t bytes);
void forget_registrations(); // cudaDeviceReset: they were the context's

// ---- variables.cc

// inside_variable: [offset, offset + bytes) is within the variable on the device that
// CUDA calls by this address of the host's.
bool inside_variable(const void *symbol, size_t offset, size_t bytes);

// variable_bytes is how much the program's variables take on each device that it uses;
// zero where that is little beside a context.
uint64_t variable_bytes();

// ---- record.cc: what is replayed when the process binds

using Operation = std::function<cudaError_t()>;

// record appends an operation. Those that only touch memory, the first of which they
// fill, disappear with the memory; the others (kept) are replayed in any case.
void record(const char *call, Operation run, std::initializer_list<Allocation *> touches);
void record_kept(const char *call, Operation run);
// record_wait: the program is told that what is recorded so far is over. What it does
// next, in whatever stream, comes after it.
void record_wait();
bool recorded(); // something is
// forget_unread drops what fills an allocation that the program has freed, unless
// another operation reads it first.
void forget_unread(const Allocation &freed);
// replay runs the record. An operation that fails is reported; the first failure that
// stays, or is of missing memory, keeps the process from binding.
cudaError_t replay();
void forget_record(); // of memory, once nothing is allocated
void clear_record();

// snapshot copies rows of host memory, or returns nullptr when that would
// exceed the limit.
std::shared_ptr<void> snapshot(const void *from, size_t width, size_t pitch, size_t rows);

// promise notes that a host buffer is recorded by reference: the next
// synchronization must bind.
void promise();
bool promised();

// ---- objects.cc: what the program is made of

// self_contained: all its device code goes through the shared CUDA runtime. A
// program that is not binds at its first call that needs a device.
bool self_contained();
void meet_driver(); // it is not: somebody uses the driver past the runtime
bool loads_parts(); // it may be no longer, when a stream or an event of its is passed on

bool asks_for_tasks(); // a part of it uses the task API of case.h
// known: the object needs no reading. It is part of CUDA, of what only watches it,
// or of the system.
bool known(const char *path);

// ---- confine.cc: programs that are not self-contained

// confine leaves the process the one device of that UUID, which is then the
// driver's device 0. false: it sees all of them, because it is self-contained or
// somebody has initialized the driver. The lock must be held.
bool confine(const unsigned char uuid[16]);
bool confined();

// ordinal_of is the driver's ordinal of the device of that UUID, -1 if the process does
// not see it, and `otherwise` where nobody can tell.
int ordinal_of(const unsigned char uuid[16], int otherwise);

// settle asks for the device of a program that is to be confined, which must
// happen before the driver is initialized.
cudaError_t settle();

// ---- forward.cc

// runtime_13: the loaded CUDA runtime is of version 13 or later, where some
// functions have other parameters.
bool runtime_13();

// ---- handles.cc: streams and events made before the process is bound

cudaStream_t real(cudaStream_t stream); // what CUDA knows it as
cudaEvent_t real(cudaEvent_t event);
void *real_handle(void *maybe); // for arguments of unknown type

// names_event: the value of this attribute of a launch begins with an event.
inline bool names_event(int attribute)
{
	return attribute == cudaLaunchAttributeProgrammaticEvent || attribute == cudaLaunchAttributeLaunchCompletionEvent;
}

// The handles of the default streams (cudaStreamLegacy, cudaStreamPerThread).
inline const auto legacy_stream = reinterpret_cast<cudaStream_t>(1);
inline const auto per_thread_stream = reinterpret_cast<cudaStream_t>(2);

void *new_handle();                    // nullptr: none left
void set_real(void *handle, void *made);
bool is_virtual(const void *handle);
bool only_recorded(const void *handle); // it is to be made in the replay
bool may_exist(const void *handle);     // false: CUDA would refuse it
void destroy(const void *handle);       // the program has: it exists no more, once the record is replayed
bool gone(const void *handle);          // the program has destroyed it, or a reset has

// EXISTS is what a call begins with that names a stream.
#define EXISTS(handle)                                                        \
	do {                                                                  \
		if (::lazy::gone(handle))                                     \
			return ::lazy::fail(cudaErrorInvalidResourceHandle);  \
	} while (0)
void forget_handles(); // cudaDeviceReset

// ---- report.cc

// seen passes a call's result on and reports it if memory was missing or the
// error stays; lasting, of a call that only repeats an error, if it stays.
cudaError_t seen(cudaError_t result, const char *call);
cudaError_t lasting(cudaError_t result, const char *call);
bool stays(cudaError_t error); // it is not cleared by cudaGetLastError
// A recorded call failed, whose success the program has been told.
void failed_replay(cudaError_t error, const char *call);
cudaError_t launch_result(cudaError_t result, const char *call);
// failed_allocation reports and returns cudaErrorMemoryAllocation.
cudaError_t failed_allocation(const char *call, uint64_t bytes);
// fail returns an error of our own, which is the thread's last one from now on. It calls
// the CUDA runtime, so nobody who may be inside a call of the runtime's comes here.
cudaError_t fail(cudaError_t error);
// last_error is the thread's last error, where CUDA's own is this one.
cudaError_t last_error(cudaError_t of_cuda, bool clear);
void forget_error(); // cudaDeviceReset

} // namespace lazy
#endif
