// machine.h: the node that the fake driver and the fake runtime share.
//
// The runtime gets the one Machine through cuGetExportTable, as the real one
// gets the driver's inner functions; all methods are virtual so that calls reach
// the driver's code. Every method is called with `lock` held.
#ifndef FAKE_MACHINE_H
#define FAKE_MACHINE_H

#include <stdio.h>
#include <sys/types.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fake_cuda.h"
#include "lock.h"

namespace fake {

constexpr size_t granule = 2 << 20; // bytes: cuMemCreate's granularity
constexpr int multiprocessors = 132, threads_per_multiprocessor = 2048;
constexpr size_t default_stack = 1024; // bytes of a thread
constexpr int the_host = -1; // where memory of cuMemCreate may be too
constexpr int error_handle = 400; // cudaErrorInvalidResourceHandle, CUDA_ERROR_INVALID_HANDLE

inline bool lasts(int error)
{
	return (error >= 700 && error <= 721 && error != 701 && error != 720) || error == 214 || error == 226 || error == 911;
}

// What the program has set in a device's context. Another device's context does not have it.
struct Settings {
	size_t limits[16] = {default_stack, 1 << 20, 8 << 20};
	std::map<const void *, int> dynamic_shared; // bytes, by kernel
};

struct Device {
	int physical;
	uint8_t uuid[16];
	size_t total, used;
	size_t local; // bytes of a thread: the pool of local memory, if it is larger than the default's
	bool live; // has its primary context
	int fault; // a lasting error of that context
	size_t saved; // bytes that a checkpoint has taken
	std::set<int> peers;
	Settings settings;
};

// A range of addresses with memory behind it.
struct Segment {
	enum Kind { device_memory, mapping, variable, pinned, registered, managed } kind;
	uintptr_t base;
	size_t bytes;
	int device;
	uint64_t access; // bit k: device k may touch it; the last: the host may touch a mapping
	unsigned long long handle;
	CUcontext context = nullptr; // plain device memory is of one context
	bool on_device() const { return kind <= variable; }
};

// Pool is a pool of stream-ordered memory. It has memory in whole granules, and gives back what is not used, but for
// the threshold, when somebody waits.
struct Pool {
	int device;
	uint64_t used = 0, reserved = 0, threshold = 0; // bytes
};

struct Stream;
struct Graph;

// Work is what an item of a stream does: `does` returns a lasting error, or 0, or goes_on: then it is done once more.
constexpr int goes_on = -1;
struct Work {
	std::function<int()> does;
	std::chrono::microseconds takes{0}; // where streams execute by themselves
	bool on_host = false;               // a function of the program's, which may wait for the program's threads

	Work() = default;
	template <class F> Work(F body, std::chrono::microseconds time = {}, bool host = false)
	        : does(std::move(body)), takes(time), on_host(host) {}
};

// What must be done before: a stream's items up to a count.
using Mark = std::pair<Stream *, uint64_t>;

struct Item {
	Work work;
	std::vector<Mark> after;
	Clock::time_point due = {}; // when it is done, once it has begun
};

struct Stream {
	int device;
	bool live, blocking;
	unsigned flags;
	int priority;
	std::deque<Item> queue;
	uint64_t submitted, done;
	bool performing; // an item that has left the queue
	Graph *capture;
};

struct Event {
	int device;
	bool live, captured;
	Mark mark;
	std::vector<Mark> all; // of a context's: each stream of it
	std::shared_ptr<int64_t> time; // ns; 0: not reached
};

struct Graph {
	std::vector<Work> nodes;
	std::vector<void *> owned; // what nodes allocate and free again; there as long as the graph
	size_t local = 0; // bytes of a thread: the most of its kernels
};

// OwnFile is a descriptor of the fake's. A program may close descriptors that are not its own, and then
// use their numbers for others, which the fake leaves alone.
class OwnFile {
public:
	OwnFile() = default;
	explicit OwnFile(int number); // none if negative
	int number() const;           // -1: there is none, or the program has closed it
	void close();

private:
	int number_ = -1;
	dev_t device_ = 0;
	ino_t inode_ = 0;
};

// Rows and slices of bytes from one place to another.
struct Copy {
	char *to;
	size_t to_pitch, to_slice;
	const char *from;
	size_t from_pitch, from_slice;
	size_t width, height, depth;
};

// Threads of a program may be at work while it exits, so that the fake has no state that a
// static destructor would end.
class Machine {
public:
	Lock lock;
	std::vector<Device> devices;
	std::atomic<bool> skips_launches{false};

	// machine.cc
	virtual int enter(const char *call, const std::string &arguments); // the error to inject, or 0
	virtual void leave(const char *call);
	void meanwhile(const char *call, fake_cuda_moment moment, void (*what)());
	virtual std::chrono::microseconds kernel_time(const char *kernel);
	virtual int violation(const std::string &what);                    // counts it; returns error_handle
	void take(Device &d, size_t bytes);
	void give(Device &d, size_t bytes);
	virtual int make_context(int device); // the primary one
	virtual void end_context(int device);
	virtual void context(int device, CUcontext *out); // its handle
	virtual int make_own_context(int device, CUcontext *out);
	virtual void end_own_context(CUcontext context);
	virtual bool alive(CUcontext context);
	virtual int make_local(int device, size_t bytes, bool shrinks); // the pool of local memory, for so many bytes of a thread
	virtual void read(fake_cuda_state *state);
	virtual CUcontext current(); // driver.cc: the calling thread's, or nullptr

	int checkpointed(int what, unsigned timeout_ms, int *state); // checkpoint.cc: an operation on this process

	// memory.cc
	virtual int allocate(Segment::Kind kind, int device, size_t bytes, void **out);
	virtual int adopt_host(void *base, size_t bytes, int device); // cudaHostRegister
	virtual int release(void *base, std::initializer_list<Segment::Kind> kinds);
	virtual const Segment *find(const void *address);
	// The one segment that [address, address + bytes) lies in, or mappings without gaps.
	virtual std::vector<const Segment *> cover(const void *address, size_t bytes);
	virtual void open(int device, CUcontext context, bool readable); // all that its kernels may touch
	bool touches_host(int device, const void *address); // in a kernel: opens the mapping of host memory there
	virtual int copy(int device, bool peer, const Copy &c);
	virtual int fill(int device, const Copy &c, unsigned value, unsigned width);
	virtual int variable(const void *host, int device, void **out, size_t *bytes);
	virtual void add_variable(const void *host, size_t bytes);

	// Pools. The default pool of a device is the current one until another is chosen.
	virtual Pool *default_pool(int device);
	virtual Pool *current_pool(int device);
	virtual void choose_pool(int device, Pool *pool);
	virtual Pool *make_pool(int device);
	virtual int end_pool(Pool *pool);
	virtual int pool(const void *handle, Pool **out); // checks the handle
	virtual int draw(Pool *pool, size_t bytes, void **out);
	virtual void trim(Pool *pool, uint64_t keep);
	virtual void waited(int device); // somebody has, for some work there
	virtual int attribute(Pool *pool, int which, void *value, bool set);

	void note_mapped(); // the driver is initialized
	int reserve(size_t bytes, uintptr_t hint, uintptr_t *out);
	int unreserve(uintptr_t base, size_t bytes);
	int create(int device, size_t bytes, bool exportable, unsigned long long *out);
	int to_file(unsigned long long handle, int *out); // a descriptor for other processes
	int from_file(int file, unsigned long long *out);
	int location(unsigned long long handle, int *device);
	int drop_handle(unsigned long long handle);
	int hold_handle(const void *address, unsigned long long *out); // of what is mapped there, once more
	int map(uintptr_t at, size_t bytes, size_t offset, unsigned long long handle);
	int unmap(uintptr_t at, size_t bytes);
	int set_access(uintptr_t at, size_t bytes, int device, int flags);

	// stream.cc
	virtual Stream *make_stream(int device, unsigned flags, int priority);
	virtual int stream(const void *handle, int device, Stream **out); // checks the handle
	virtual int end_stream(Stream *s);
	virtual Event *make_event(int device);
	virtual int event(const void *handle, Event **out);
	virtual int end_event(Event *e);
	virtual int record(Event *e, Stream *s);
	virtual int record_all(Event *e); // of the event's device
	virtual int await(Stream *s, const Event *e); // cudaStreamWaitEvent
	virtual int query(Event *e);
	virtual int elapsed(Event *from, Event *to, float *milliseconds);
	// Captures, and those that a wait for the device or the like has spoilt. spoil returns an error if
	// there are any.
	std::set<Stream *> captured, spoilt;
	virtual int spoil();
	virtual void submit(Stream *s, Work work, std::vector<Mark> after = {});
	virtual void run(Stream *s, uint64_t up_to); // waits for it, where streams execute by themselves
	virtual void drain(int device);
	virtual int poll(const Mark &mark); // cudaErrorNotReady, or 0
	virtual int kernel(int device, CUcontext context, const fake_launch &launch, const fake_kernel *kernel,
	                   std::vector<char> arguments, unsigned round);
	virtual bool reached(const Mark &mark) { return mark.first == nullptr || mark.first->done >= mark.second; }

private:
	struct Handle {
		OwnFile file;
		int device;
		size_t bytes;
		unsigned references;
		bool exportable;
		bool imported = false;
	};
	struct Reservation {
		size_t bytes;
		uintptr_t start; // of the host's addresses that it takes: what is beside it stays unmapped
		size_t length;
	};
	std::map<std::pair<std::string, fake_cuda_moment>, void (*)()> interruptions;
	std::vector<int> order;
	int contexts = 0;
	std::set<CUcontext> own;
	uintptr_t made_own = 0;
	unsigned host_touches = 0, violations = 0;
	std::map<uintptr_t, Segment> segments;
	bool gives(uintptr_t hint, size_t bytes);
	std::map<uintptr_t, Reservation> reservations;
	std::map<uintptr_t, uintptr_t> mapped_before; // the first address of what was mapped, by the address beyond its end
	std::set<Pool *> pools;
	Pool defaults[FAKE_CUDA_MAX_DEVICES], *chosen[FAKE_CUDA_MAX_DEVICES] = {};
	std::map<uintptr_t, Pool *> drawn; // what is allocated of pools
	std::map<unsigned long long, Handle> handles;
	unsigned long long next_handle = 1;
	std::map<const void *, size_t> variables;
	std::map<std::pair<const void *, int>, void *> instances;
	std::vector<std::unique_ptr<Stream>> streams;
	std::unordered_map<const void *, Stream *> stream_of; // each, by handle
	std::unordered_map<const void *, std::unique_ptr<Event>> events; // by handle
	std::map<int, Stream *> default_streams;
	std::map<std::pair<pthread_t, int>, Stream *> own_streams; // by thread and device
	bool executing = false; // streams execute by themselves
	enum { runs, locked, saved } process = runs; // as cuCheckpointProcessGetState says
	bool locking = false;                              // new calls wait, and the device ends its work

	void publish();
	bool finished(Clock::time_point until);
	int lock_process(unsigned timeout_ms);
	void interrupt(const char *call, fake_cuda_moment moment);
	void let_go(unsigned long long handle);
	void erase(const Segment &s);
	void protect(const Segment &s, bool readable);
	bool may_touch(int device, bool peer, const void *address, size_t bytes);
	Stream *default_stream(int device);
	void perform(Stream *s);
	bool begins(Stream *s);
	void start_executors();
	void execute(bool on_host);
};

Machine &machine(); // in the driver alone
bool in_thread(void *(*body)(void *)); // starts a thread of the driver's
void serve_checkpoints();              // in this process, if it can be checkpointed
std::vector<Device> visible_devices(); // as the driver reads CUDA_VISIBLE_DEVICES in cuInit

// A context's handle is its device's ordinal plus one, and above that byte zero
// for the primary context or the number of one that cuCtxCreate made.
inline int device_of(CUcontext context) { return static_cast<int>(reinterpret_cast<uintptr_t>(context) & 0xff) - 1; }

// arguments turns a call's arguments into the trace's text.
inline std::string text(const char *s) { return s; }
inline std::string text(const void *p)
{
	char buffer[32];
	snprintf(buffer, sizeof buffer, "%p", p);
	return buffer;
}
template <class T> std::string text(T *p) { return text(static_cast<const void *>(p)); }
template <class T> std::enable_if_t<std::is_integral_v<T>, std::string> text(T n) { return std::to_string(n); }
template <class... A> std::string arguments(const A &...a)
{
	std::string all;
	((all += " " + text(a)), ...);
	return all;
}

} // namespace fake
#endif
