// random.cc: programs that are made up from a seed.
//
// What they print must follow from CUDA's rules alone: whatever is done to a piece of
// memory is put in order, by a wait, an event or the default stream's rules, and host
// memory is read when the copies to it have been waited for.
#include <stdarg.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "program.h"

extern "C" {
cudaError_t cudaHostAlloc(void **, size_t, unsigned);
cudaError_t cudaMemset2DAsync(void *, size_t, int, size_t, size_t, cudaStream_t);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned);
cudaError_t cudaMemcpyPeerAsync(void *, int, const void *, int, size_t, cudaStream_t);
}

static void blend(unsigned char *to, const unsigned char *from, size_t n, unsigned by)
{
	for (size_t i = 0; i < n; i++)
		to[i] = static_cast<unsigned char>(31 * to[i] + from[i] + by);
}
FAKE_KERNEL(blend);

static void add_listed(unsigned char **lists, int count, size_t n) // through pointers in device memory
{
	for (int k = 0; k < count; k++)
		for (size_t i = 0; i < n; i++)
			lists[k][i] = static_cast<unsigned char>(lists[k][i] + k + 1);
}
FAKE_KERNEL(add_listed);

namespace {

class Random { // splitmix64
public:
	explicit Random(uint64_t seed) : state(seed) {}
	uint64_t next()
	{
		uint64_t z = state += 0x9e3779b97f4a7c15;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		return z ^ z >> 31;
	}
	size_t below(size_t n) { return next() % n; }
	size_t within(size_t least, size_t most) { return least + below(most - least + 1); }
	bool one_in(size_t n) { return below(n) == 0; }

private:
	uint64_t state;
};

enum class Kind { device, managed, locked, registered, pageable };

struct Stream {
	cudaStream_t handle;
	bool blocking, alive;
};

const int idle = -1, somewhere = -2; // instead of a stream: nothing is under way, or in one that is gone

struct Buffer {
	Kind kind;
	char *at;
	size_t pitch, width, height; // bytes
	int in;                      // the stream in which the last work on it was submitted
	bool on_host() const { return kind >= Kind::locked; }
};

struct Region {
	size_t x, y, width, height;
};

class Program {
public:
	Program(uint64_t seed, bool alone) : random(seed), alone(alone)
	{
		streams = {{nullptr, true, true}, {reinterpret_cast<cudaStream_t>(2), true, true}};
	}

	void run()
	{
		using Step = void (Program::*)();
		const Step steps[] = {
			&Program::allocate, &Program::allocate, &Program::allocate, &Program::allocate_host, &Program::set,
			&Program::set, &Program::upload, &Program::upload, &Program::upload, &Program::download,
			&Program::download, &Program::copy, &Program::copy, &Program::launch, &Program::launch,
			&Program::launch_listed, &Program::look, &Program::look, &Program::write, &Program::make_stream,
			&Program::end_stream, &Program::use_event, &Program::use_event, &Program::wait, &Program::wait, &Program::release,
			&Program::release, &Program::last_error, &Program::last_error, &Program::mistake, &Program::mistake,
			&Program::ask, &Program::callback,
		};
		const Step alone_steps[] = {&Program::variable, &Program::graph, &Program::free_twice, &Program::free_all};
		const size_t count = random.within(3, 60);

		for (size_t i = 0; i < count; i++)
			if (alone && random.one_in(12))
				(this->*alone_steps[random.below(4)])();
			else
				(this->*steps[random.below(sizeof steps / sizeof *steps)])();
		for (Buffer &b : buffers)
			show(b);
		last_error();
	}

	// end frees everything in some order.
	void end()
	{
		free_all();
		while (!made_events.empty()) {
			print("event destroy %d", cudaEventDestroy(made_events.back()));
			made_events.pop_back();
		}
		for (Stream &s : streams)
			if (&s >= &streams[2] && s.alive) {
				print("stream destroy %d", cudaStreamDestroy(s.handle));
				s.alive = false;
			}
		last_error();
	}

	std::string said;

private:
	Random random;
	const bool alone; // in its process: nobody else can allocate, capture or use a variable
	std::vector<Stream> streams;
	std::vector<Buffer> buffers;
	std::vector<cudaEvent_t> made_events;
	std::vector<std::unique_ptr<std::vector<char>>> pages; // host memory that the program itself has
	int called = 0;                                         // back

	__attribute__((format(printf, 2, 3))) void print(const char *format, ...)
	{
		char line[256];
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(line, sizeof line, format, arguments);
		va_end(arguments);
		said += line;
		said += '\n';
	}

	// ---- order

	int any_stream()
	{
		for (;;) {
			const size_t n = random.one_in(2) ? 0 : random.below(streams.size());
			if (streams[n].alive)
				return static_cast<int>(n);
		}
	}
	cudaStream_t handle(int stream) const { return streams[static_cast<size_t>(stream)].handle; }

	bool in_order(int first, int then) const
	{
		const auto blocking = [&](int s) { return streams[static_cast<size_t>(s)].blocking; };
		return first == then || (first == 0 && blocking(then)) || (then == 0 && first >= 0 && blocking(first));
	}

	void is_idle(int stream) // or all of them
	{
		for (Buffer &b : buffers)
			if (stream == idle || b.in == stream)
				b.in = idle;
	}

	void wait_for_device()
	{
		print("device synchronize %d", cudaDeviceSynchronize());
		is_idle(idle);
	}

	void wait_for(int stream)
	{
		switch (random.below(3)) {
		case 0: {
			cudaError_t error;
			do
				error = cudaStreamQuery(handle(stream));
			while (error == cudaErrorNotReady);
			print("stream query %d", error);
			break;
		}
		case 1:
			if (cudaEvent_t e = event(); e != nullptr) {
				print("record %d", cudaEventRecord(e, handle(stream)));
				print("synchronize %d", cudaEventSynchronize(e));
				break;
			}
			[[fallthrough]];
		default:
			print("stream synchronize %d", cudaStreamSynchronize(handle(stream)));
		}
		is_idle(stream);
	}

	// settle: the host may read and write it.
	void settle(Buffer &b)
	{
		if (b.in == somewhere || (b.in != idle && random.one_in(4)))
			wait_for_device();
		else if (b.in != idle)
			wait_for(b.in);
	}

	// order: what is submitted to the stream next may use it.
	void order(Buffer &b, int stream)
	{
		if (b.in != idle && b.in != somewhere && !in_order(b.in, stream) && random.one_in(2))
			if (cudaEvent_t e = event(); e != nullptr) {
				print("record %d", cudaEventRecord(e, handle(b.in)));
				print("stream wait %d", cudaStreamWaitEvent(handle(stream), e, 0));
				b.in = stream;
			}
		if (b.in != idle && (b.in == somewhere || !in_order(b.in, stream)))
			settle(b);
	}

	cudaEvent_t event()
	{
		if (made_events.empty() || random.one_in(6)) {
			cudaEvent_t e = nullptr;
			print("event %d", random.one_in(2) ? cudaEventCreate(&e) : cudaEventCreateWithFlags(&e, 2));
			if (e == nullptr)
				return e;
			made_events.push_back(e);
		}
		return made_events[random.below(made_events.size())];
	}

	// ---- memory

	size_t some_bytes()
	{
		switch (random.below(6)) {
		case 0: return random.within(1, 64);
		case 1: case 2: return random.within(1, 4096);
		case 3: return random.within(4096, 300 << 10);
		case 4: return random.within(900 << 10, 1100 << 10); // where an allocation gets granules of its own
		default: return random.within(1 << 20, 5 << 20);
		}
	}

	Buffer *any(bool (*fits)(const Buffer &))
	{
		std::vector<Buffer *> all;
		for (Buffer &b : buffers)
			if (fits(b))
				all.push_back(&b);
		return all.empty() ? nullptr : all[random.below(all.size())];
	}
	Buffer *on_device() { return any([](const Buffer &b) { return !b.on_host(); }); }
	Buffer *on_host() { return any([](const Buffer &b) { return b.on_host(); }); }

	Region part_of(const Buffer &a, const Buffer &b) // the same size of each
	{
		const size_t width = std::min(a.width, b.width), height = std::min(a.height, b.height);
		const size_t w = random.one_in(2) ? width : random.within(1, width);
		const size_t h = random.one_in(2) ? height : random.within(1, height);
		return {random.below(width - w + 1), random.below(height - h + 1), w, h};
	}
	static char *at(const Buffer &b, const Region &r) { return b.at + r.y * b.pitch + r.x; }

	void allocate()
	{
		size_t bytes = some_bytes(), pitch = bytes;
		void *p = nullptr;
		Buffer b = {Kind::device, nullptr, bytes, bytes, 1, idle};
		cudaError_t error;

		if (buffers.size() > 12)
			return release();
		switch (random.below(7)) {
		case 0: {
			b.width = random.within(1, 3000), b.height = random.within(1, 200);
			error = cudaMallocPitch(&p, &pitch, b.width, b.height);
			b.pitch = pitch;
			break;
		}
		case 1: {
			cudaPitchedPtr there = {};
			b.width = random.within(1, 3000), b.height = random.within(1, 100);
			error = cudaMalloc3D(&there, {b.width, b.height, 1});
			p = there.ptr;
			b.pitch = there.pitch;
			break;
		}
		case 2: {
			const int s = any_stream();
			error = cudaMallocAsync(&p, bytes, handle(s));
			b.in = s;
			break;
		}
		case 3:
			if (random.one_in(3)) {
				b.kind = Kind::managed;
				error = cudaMallocManaged(&p, bytes, 1);
				break;
			}
			[[fallthrough]];
		default:
			error = cudaMalloc(&p, bytes);
		}
		print("allocate %d %zu", error, b.pitch);
		if (error != cudaSuccess)
			return;
		b.at = static_cast<char *>(p);
		buffers.push_back(b);
		fill(buffers.back(), {0, 0, b.width, b.height});
	}

	void allocate_host()
	{
		const size_t bytes = some_bytes();
		void *p = nullptr;
		Buffer b = {Kind::locked, nullptr, bytes, bytes, 1, idle};
		cudaError_t error = cudaSuccess;

		if (buffers.size() > 12)
			return release();
		switch (random.below(4)) {
		case 0:
			error = random.one_in(2) ? cudaMallocHost(&p, bytes) : cudaHostAlloc(&p, bytes, 0);
			break;
		default:
			b.kind = random.one_in(3) ? Kind::registered : Kind::pageable;
			pages.push_back(std::make_unique<std::vector<char>>(bytes));
			p = pages.back()->data();
			if (b.kind == Kind::registered)
				error = cudaHostRegister(p, bytes, 0);
		}
		print("host %d %zu", error, bytes);
		if (error != cudaSuccess)
			return;
		b.at = static_cast<char *>(p);
		buffers.push_back(b);
		rewrite(buffers.back());
	}

	void rewrite(Buffer &b)
	{
		uint64_t word = random.next();
		for (size_t i = 0; i < b.width; i++)
			b.at[i] = static_cast<char>((word = word * 6364136223846793005 + 1) >> 56);
	}

	void write() // the host's own memory
	{
		if (Buffer *b = on_host()) {
			settle(*b);
			rewrite(*b);
		}
	}

	void show(Buffer &b)
	{
		std::vector<char> mine(b.width * b.height);
		uint64_t digest = 14695981039346656037u;

		settle(b);
		cudaError_t error = cudaSuccess;
		if (b.kind == Kind::device)
			error = cudaMemcpy2D(mine.data(), b.width, b.at, b.pitch, b.width, b.height, cudaMemcpyDeviceToHost);
		else
			memcpy(mine.data(), b.at, mine.size());
		for (char c : mine)
			digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211u;
		print("look %d %016llx", error, static_cast<unsigned long long>(digest));
	}

	void look()
	{
		if (Buffer *b = any([](const Buffer &) { return true; }))
			show(*b);
	}

	// ---- work

	void fill(Buffer &b, const Region &r)
	{
		const int value = static_cast<int>(random.below(256)), s = random.one_in(2) ? any_stream() : 0;
		const bool line = r.height == 1;
		cudaError_t error;

		order(b, s);
		if (s == 0 && random.one_in(2))
			error = line ? cudaMemset(at(b, r), value, r.width) : cudaMemset2D(at(b, r), b.pitch, value, r.width, r.height);
		else
			error = line ? cudaMemsetAsync(at(b, r), value, r.width, handle(s)) :
			               cudaMemset2DAsync(at(b, r), b.pitch, value, r.width, r.height, handle(s));
		b.in = s;
		print("set %d", error);
	}

	void set()
	{
		if (Buffer *b = on_device())
			fill(*b, part_of(*b, *b));
	}

	cudaError_t transfer(const Buffer &to, const Buffer &from, const Region &r, int kind, int s, bool wait)
	{
		if (r.height == 1 && random.one_in(8) == 0)
			return wait ? cudaMemcpy(at(to, r), at(from, r), r.width, kind) :
			              cudaMemcpyAsync(at(to, r), at(from, r), r.width, kind, handle(s));
		return wait ? cudaMemcpy2D(at(to, r), to.pitch, at(from, r), from.pitch, r.width, r.height, kind) :
		              cudaMemcpy2DAsync(at(to, r), to.pitch, at(from, r), from.pitch, r.width, r.height, kind, handle(s));
	}

	void upload()
	{
		Buffer *to = on_device(), *from = on_host();
		if (to == nullptr || from == nullptr)
			return;
		const bool wait = random.one_in(2);
		const int s = wait ? 0 : any_stream();
		order(*to, s);
		if (from->kind == Kind::pageable || wait)
			settle(*from);
		else
			order(*from, s);
		const Region r = part_of(*to, *from);
		print("upload %d", transfer(*to, *from, r, random.one_in(4) ? cudaMemcpyDefault : cudaMemcpyHostToDevice, s, wait));
		to->in = s;
		if (from->kind == Kind::pageable && random.one_in(2))
			rewrite(*from); // it has been read
		else if (from->kind != Kind::pageable && !wait)
			from->in = s;
	}

	void download()
	{
		Buffer *from = on_device(), *to = on_host();
		if (to == nullptr || from == nullptr)
			return;
		const bool wait = random.one_in(2);
		const int s = wait ? 0 : any_stream();
		order(*from, s);
		settle(*to);
		const Region r = part_of(*to, *from);
		print("download %d", transfer(*to, *from, r, random.one_in(4) ? cudaMemcpyDefault : cudaMemcpyDeviceToHost, s, wait));
		from->in = to->in = s;
		if (wait)
			from->in = to->in = idle;
	}

	void copy()
	{
		Buffer *from = on_device(), *to = on_device();
		if (to == nullptr || from == to)
			return;
		const bool wait = random.one_in(2);
		const int s = wait ? 0 : any_stream();
		order(*from, s);
		order(*to, s);
		const Region r = part_of(*to, *from);
		if (r.height == 1 && random.one_in(6))
			print("copy %d", wait ? cudaMemcpyPeer(at(*to, r), 0, at(*from, r), 0, r.width) :
			                        cudaMemcpyPeerAsync(at(*to, r), 0, at(*from, r), 0, r.width, handle(s)));
		else
			print("copy %d", transfer(*to, *from, r, random.one_in(4) ? cudaMemcpyDefault : cudaMemcpyDeviceToDevice, s, wait));
		from->in = to->in = s;
	}

	void launch_in(int s)
	{
		Buffer *from = on_device(), *to = on_device();
		const dim3 blocks = {static_cast<unsigned>(random.within(1, 300)), 1, 1};
		if (to == nullptr || from == to) {
			print("launch %d", LAUNCH(nothing, blocks, block, 0, handle(s)));
			return;
		}
		order(*from, s);
		order(*to, s);
		const size_t n = random.within(1, std::min(from->width, to->width));
		print("launch %d", LAUNCH(blend, blocks, block, random.below(2) * 1024, handle(s),
		                          reinterpret_cast<unsigned char *>(to->at),
		                          reinterpret_cast<const unsigned char *>(from->at), n,
		                          static_cast<unsigned>(random.below(256))));
		from->in = to->in = s;
	}
	void launch() { launch_in(any_stream()); }

	void launch_listed()
	{
		std::vector<Buffer *> listed;
		std::vector<unsigned char *> addresses;
		const int s = any_stream();
		void *lists = nullptr;
		size_t n = 1 << 20;

		for (Buffer &b : buffers)
			if (!b.on_host() && random.one_in(2)) {
				listed.push_back(&b);
				addresses.push_back(reinterpret_cast<unsigned char *>(b.at));
				n = std::min(n, b.width);
			}
		if (listed.empty())
			return;
		for (Buffer *b : listed)
			order(*b, s);
		const size_t bytes = addresses.size() * sizeof addresses[0];
		print("lists %d", cudaMalloc(&lists, bytes));
		print("filled %d", cudaMemcpyAsync(lists, addresses.data(), bytes, cudaMemcpyHostToDevice, handle(s)));
		addresses.assign(addresses.size(), nullptr);
		print("launch %d", LAUNCH(add_listed, grid, block, 0, handle(s), static_cast<unsigned char **>(lists),
		                          static_cast<int>(listed.size()), n));
		for (Buffer *b : listed)
			b->in = s;
		print("free %d", random.one_in(2) ? cudaFree(lists) : cudaFreeAsync(lists, handle(s)));
	}

	static void count(void *counter) { ++*static_cast<int *>(counter); }
	static void count_in(cudaStream_t, cudaError_t, void *counter) { ++*static_cast<int *>(counter); }

	void callback()
	{
		const int s = any_stream();
		cudaError_t error = random.one_in(2) ? cudaLaunchHostFunc(handle(s), count, &called) :
		                                       cudaStreamAddCallback(handle(s), count_in, &called, 0);
		wait_for(s);
		print("callback %d called %d", error, called);
	}

	// ---- streams and events

	void make_stream()
	{
		Stream s = {nullptr, random.one_in(2), true};

		if (streams.size() > 8)
			return end_stream();
		cudaError_t error = s.blocking && random.one_in(2) ? cudaStreamCreate(&s.handle) :
		                                                     cudaStreamCreateWithFlags(&s.handle, s.blocking ? 0 : 1);
		print("stream %d", error);
		if (error == cudaSuccess)
			streams.push_back(s);
	}

	void end_stream()
	{
		const int s = any_stream();

		if (s < 2)
			return;
		if (random.one_in(2))
			wait_for(s);
		print("stream destroy %d", cudaStreamDestroy(handle(s)));
		streams[static_cast<size_t>(s)].alive = false;
		for (Buffer &b : buffers)
			if (b.in == s)
				b.in = somewhere;
	}

	void use_event()
	{
		const cudaEvent_t e = event(), other = event();
		const int s = any_stream();
		float ms = -1;

		if (e == nullptr || other == nullptr)
			return;
		switch (random.below(5)) {
		case 0:
			print("record %d", cudaEventRecord(e, handle(s)));
			break;
		case 1: {
			cudaError_t error;
			do
				error = cudaEventQuery(e);
			while (error == cudaErrorNotReady);
			print("event query %d", error);
			break;
		}
		case 2:
			print("stream wait %d", cudaStreamWaitEvent(handle(s), e, 0));
			break;
		case 3: {
			print("record %d", cudaEventRecord(e, handle(s)));
			print("record %d", cudaEventRecord(other, handle(s)));
			wait_for(s);
			print("timed %d", cudaEventElapsedTime(&ms, e, other));
			break;
		}
		default:
			made_events.erase(std::find(made_events.begin(), made_events.end(), e));
			print("event destroy %d", cudaEventDestroy(e));
		}
	}

	void wait()
	{
		if (random.one_in(2))
			wait_for_device();
		else
			wait_for(any_stream());
	}

	// ---- the end of memory

	void free_one(size_t n)
	{
		Buffer b = buffers[n];
		cudaError_t error = cudaSuccess;

		if (b.on_host())
			settle(buffers[n]);
		if (b.kind == Kind::device && b.in != somewhere && random.one_in(3)) {
			const int s = b.in != idle && random.one_in(2) ? b.in : any_stream();
			order(buffers[n], s);
			error = cudaFreeAsync(b.at, handle(s));
		} else if (!b.on_host()) {
			error = cudaFree(b.at);
			is_idle(idle); // it waits for the device
		} else if (b.kind == Kind::locked) {
			error = cudaFreeHost(b.at);
		} else if (b.kind == Kind::registered) {
			error = cudaHostUnregister(b.at);
		}
		buffers.erase(buffers.begin() + static_cast<long>(n));
		print("free %d", error);
	}

	void release()
	{
		if (!buffers.empty())
			free_one(random.below(buffers.size()));
	}

	void free_all()
	{
		while (!buffers.empty())
			free_one(random.below(buffers.size()));
	}

	// ---- mistakes and questions

	void last_error()
	{
		print("last %d", random.one_in(2) ? cudaGetLastError() : cudaPeekAtLastError());
	}

	void mistake()
	{
		const int s = any_stream();
		Buffer *b = on_device();
		std::vector<char> mine(64, 1);
		void *p = &mine;
		size_t pitch = 0;

		switch (random.below(17)) {
		case 0: print("none %d", cudaMalloc(nullptr, 8)); break;
		case 1: print("nothing %d", cudaMalloc(&p, 0)); print("%d", p == nullptr); break;
		case 2: print("too much %d", cudaMalloc(&p, size_t{8} << 30)); break;
		case 3: print("too wide %d", cudaMallocPitch(&p, &pitch, size_t{1} << 30, 16)); break;
		case 4: print("unknown %d", cudaFree(mine.data())); break;
		case 5: print("null %d", cudaFree(nullptr)); break;
		case 6: print("unknown host %d", cudaFreeHost(mine.data())); break;
		case 7: print("unregistered %d", cudaHostUnregister(mine.data())); break;
		case 8: print("device %d", cudaSetDevice(random.one_in(2) ? 7 : -1)); break;
		case 9: print("threads %d", LAUNCH(nothing, grid, dim3({2048, 1, 1}), 0, handle(s))); break;
		case 10: print("shared %d", LAUNCH(nothing, grid, block, 60000, handle(s))); break;
		case 11: print("from nowhere %d", b == nullptr ? 0 : cudaMemcpy(b->at, nullptr, 1, cudaMemcpyHostToDevice)); break;
		case 12: print("to nowhere %d", cudaMemcpyAsync(nullptr, mine.data(), 8, cudaMemcpyHostToDevice, handle(s))); break;
		case 13: print("nothing %d", cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice)); break;
		case 14:
			if (b != nullptr) {
				order(*b, 0);
				print("kind %d", cudaMemcpy(b->at, mine.data(), 1, random.one_in(2) ? 9 : cudaMemcpyDeviceToDevice));
			}
			break;
		case 15: print("set %d", cudaMemset(mine.data(), 1, 8)); break;
		default:
			if (b != nullptr && b->height > 1) {
				order(*b, 0);
				print("pitch %d", cudaMemset2D(b->at, 1, 0, 2, 2));
			} else if (b != nullptr) {
				std::vector<char> more(b->width + 1);
				order(*b, 0);
				print("past %d", cudaMemcpy(b->at, more.data(), more.size(), cudaMemcpyHostToDevice));
			}
		}
	}

	void free_twice()
	{
		void *p = nullptr;
		print("allocate %d", cudaMalloc(&p, random.within(1, 3 << 20)));
		print("free %d", cudaFree(p));
		print("again %d", cudaFree(p));
	}

	void ask()
	{
		Buffer *b = any([](const Buffer &) { return true; });
		cudaPointerAttributes attributes = {};
		size_t limit = 0;
		int device = -1;

		switch (random.below(5)) {
		case 0:
			if (b != nullptr) {
				cudaError_t error = cudaPointerGetAttributes(&attributes, b->at + random.below(b->width));
				print("pointer %d type %d device %d", error, attributes.type, attributes.device);
			}
			break;
		case 1: print("device %d", cudaGetDevice(&device)); print("%d", device); break;
		case 2: print("set %d", cudaSetDevice(0)); break;
		case 3:
			if (alone) // what fits the fake device: where the call is recorded, a larger stack fails only later
				print("limit %d", cudaDeviceSetLimit(cudaLimitStackSize, 1024 * random.within(1, 4)));
			break;
		default: print("limit %d", cudaDeviceGetLimit(&limit, cudaLimitStackSize)); print("%zu", alone ? limit : 0);
		}
	}

	void variable()
	{
		int values[8] = {}, back[8] = {};
		const size_t first = random.below(8), n = random.within(1, 8 - first) * sizeof(int);

		for (int &v : values)
			v = static_cast<int>(random.below(1000));
		if (random.one_in(2))
			print("to symbol %d", cudaMemcpyToSymbol(table, values, n, first * sizeof(int), cudaMemcpyHostToDevice));
		if (random.one_in(6))
			print("past symbol %d", cudaMemcpyToSymbol(table, values, 8, sizeof table, cudaMemcpyHostToDevice));
		if (random.one_in(2)) {
			print("from symbol %d", cudaMemcpyFromSymbol(back, table, sizeof back, 0, cudaMemcpyDeviceToHost));
			print("%d %d", back[0], back[7]);
		}
	}

	void graph()
	{
		const int s = any_stream();
		Buffer *b = on_device();
		cudaGraph_t made = nullptr;
		cudaGraphExec_t executable = nullptr;

		if (s < 2 || b == nullptr)
			return;
		settle(*b);
		print("begin %d", cudaStreamBeginCapture(handle(s), 0));
		print("set %d", cudaMemsetAsync(b->at, 3, b->width, handle(s)));
		print("launch %d", LAUNCH(blend, grid, block, 0, handle(s), reinterpret_cast<unsigned char *>(b->at),
		                          reinterpret_cast<unsigned char *>(b->at), b->width, 5u));
		print("end %d", cudaStreamEndCapture(handle(s), &made));
		print("instantiate %d", cudaGraphInstantiate(&executable, made, 0, nullptr, 0));
		for (size_t n = random.below(3); n > 0; n--)
			print("launch %d", cudaGraphLaunch(executable, handle(s)));
		wait_for(s);
		print("destroy %d", cudaGraphExecDestroy(executable));
		print("destroy %d", cudaGraphDestroy(made));
	}
};

} // namespace

// random_programs: `what` is the first seed, how many programs, and how many threads each.
void random_programs(const char *what)
{
	unsigned long long seed = 0;
	unsigned count = 0, threads = 0;

	if (sscanf(what, "%llu,%u,%u", &seed, &count, &threads) != 3)
		exit(2);
	if (threads == 1)
		register_variables();
	for (unsigned n = 0; n < count; n++) {
		Random random(~seed - n);
		std::vector<std::unique_ptr<Program>> all;
		std::vector<std::thread> running;
		for (unsigned k = 0; k < threads; k++)
			all.push_back(std::make_unique<Program>((seed + n) * 64 + k, threads == 1));
		const bool frees = !random.one_in(4), resets = !frees || random.one_in(2);
		const auto run = [frees](Program *p) {
			p->run();
			if (frees)
				p->end();
		};
		if (threads == 1)
			run(all[0].get());
		else
			for (auto &p : all)
				running.emplace_back(run, p.get());
		for (std::thread &t : running)
			t.join();
		say("program %llu", seed + n);
		for (auto &p : all)
			if (write(STDOUT_FILENO, p->said.data(), p->said.size()) != static_cast<ssize_t>(p->said.size()))
				exit(3);
		if (resets)
			say("reset %d", cudaDeviceReset());
	}
}
