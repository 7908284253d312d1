// outside.cc: what reads, writes, copies and sets just outside an allocation.
#include <algorithm>
#include <string>

#include "program.h"

const size_t granule = 2 * mib;

// reads_before: the first rows need what lies before them, which does not count.
static void average(const int *x, int n, int row, int *out)
{
	for (int i = 0; i < n; i++) {
		const volatile int *above = x + i - row;
		const int a = *above;
		out[i] = x[i] + (i < row ? 0 : a);
	}
}
FAKE_KERNEL(average);

void reads_before()
{
	const int n = 4096, row = 384; // 1,536 bytes
	std::vector<int> host = numbers(n, 1);
	int *x = device<int>(n), *out = device<int>(n);
	TRY(cudaMemcpy(x, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
	TRY(LAUNCH(average, grid, block, 0, nullptr, x, n, row, out));
	TRY(cudaDeviceSynchronize());
	say("out %ld", digest(out, n));
	TRY(cudaFree(x));
	TRY(cudaFree(out));
	state("after");
}

// around writes the bytes at the ends of what lies within `far` of the allocations.
static void around(char **all, int count, size_t bytes, size_t far)
{
	for (int i = 0; i < count; i++)
		for (char *at : {all[i] - far, all[i] - 4, all[i] - 1, all[i] + bytes, all[i] + bytes + far - 1}) {
			volatile char *there = at;
			*there = static_cast<char>(*there + 1);
		}
}
FAKE_KERNEL(around);

// surround launches it with the addresses of allocations in device memory.
static void surround(const std::vector<char *> &all, size_t bytes, size_t far)
{
	char **list = device<char *>(all.size());
	TRY(cudaMemcpy(list, all.data(), all.size() * sizeof *list, cudaMemcpyHostToDevice));
	TRY(LAUNCH(around, grid, block, 0, nullptr, list, static_cast<int>(all.size()), bytes, far));
	TRY(cudaDeviceSynchronize());
	TRY(cudaFree(list));
}

// writes_around: large and small allocations keep their contents. Small allocations lie beside
// others, so the program writes beside the only small allocation, where no other is harmed.
void writes_around()
{
	for (size_t bytes : {4000 * sizeof(int), 3 * mib}) {
		std::vector<char *> all;
		for (int i = 0; i < (bytes < mib ? 1 : 5); i++) {
			all.push_back(device<char>(bytes));
			TRY(cudaMemset(all.back(), i + 1, bytes));
		}
		surround(all, bytes, granule);
		for (char *p : all)
			say("%zu: %ld", bytes, digest(reinterpret_cast<int *>(p), static_cast<int>(bytes / sizeof(int))));
		for (char *p : all)
			TRY(cudaFree(p));
	}
	state("after");
}

static void memory(const char *when)
{
	const fake_cuda_state s = fake_state();
	say("%s: contexts and memory %zu and %zu", when, static_cast<size_t>(s.used[0]), static_cast<size_t>(s.used[1]));
}

// margins: many reservations, and what they take.
void margins()
{
	const size_t bytes = 3 * mib / 2;
	std::vector<char *> all;
	for (int i = 0; i < 200; i++)
		all.push_back(device<char>(bytes));
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	memory("bound");
	surround(all, bytes, granule);
	for (char *p : all)
		TRY(cudaFree(p));
	memory("freed");
	state("after");
}

// margins_move: tasks that may each be on another device, and a reset.
void margins_move()
{
	for (const char *when : {"first", "second", "third"}) {
		char *x = device<char>(2 * mib);
		surround({x}, 2 * mib, granule);
		TRY(cudaFree(x));
		memory(when);
		state(when);
	}
	for (const char *when : {"reset", "reset again"}) {
		char *x = device<char>(2 * mib);
		surround({x}, 2 * mib, granule);
		TRY(cudaDeviceReset());
		memory(when);
		state(when);
	}
	state("after");
}

static void tell(int number, std::initializer_list<cudaError_t> errors)
{
	std::string all;
	for (cudaError_t e : errors)
		all += " " + std::to_string(e);
	say("%d:%s", number, all.c_str());
}

// beyond: copies and sets of ranges that are not inside one allocation, which change nothing.
void beyond(const char *way)
{
	const std::string what = way;
	const size_t sizes[] = {1000, 1020, 3 * mib / 2, 2 * mib}; // the last fills its granules
	std::vector<int> host(mib, 77);
	char *all[8], *source = device<char>(4 * mib);
	cudaStream_t s;

	TRY(cudaStreamCreate(&s));
	TRY(cudaMemset(source, 5, 4 * mib));
	for (int i = 0; i < 8; i++) {
		all[i] = device<char>(sizes[i % 4]);
		TRY(cudaMemset(all[i], 1, sizes[i % 4]));
	}
	if (what == "bound" || what == "freed")
		TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	for (int i = 0; i < 8; i++) {
		char *p = all[i];
		const size_t n = sizes[i % 4];
		void *h = host.data();
		const struct {
			char *at;
			size_t bytes;
		} ranges[] = {{p, n + 1}, {p, 2 * mib + 1}, {p + n / 2, n}, {p + n - 1, 2}, {p + n, 1}, {p - 4, 8}, {p - 4, 4}};
		for (const auto &[at, b] : ranges) {
			tell(i, {cudaMemset(at, 9, b), cudaMemsetAsync(at, 9, b, s)});
			tell(i, {cudaMemcpy(at, h, b, cudaMemcpyHostToDevice), cudaMemcpyAsync(at, h, b, cudaMemcpyHostToDevice, s),
			         cudaMemcpy(h, at, b, cudaMemcpyDeviceToHost), cudaMemcpyAsync(h, at, b, cudaMemcpyDeviceToHost, s)});
			tell(i, {cudaMemcpy(at, source, b, cudaMemcpyDeviceToDevice), cudaMemcpyPeer(at, 0, source, 0, b),
			         cudaMemcpy(source, at, b, cudaMemcpyDeviceToDevice),
			         cudaMemcpyAsync(source, at, b, cudaMemcpyDeviceToDevice, s)});
		}
		const size_t rows = n / 100 + 1; // of 100 bytes: the last one is not all there
		tell(i, {cudaMemset(p, 9, SIZE_MAX), cudaMemset2D(p, 100, 9, 100, rows), cudaMemset2DAsync(p, 100, 9, 100, rows, s),
		         cudaMemset2D(p, 50 + n, 9, 50, 2)});
		tell(i, {cudaMemcpy2D(p, 100, h, 100, 100, rows, cudaMemcpyHostToDevice),
		         cudaMemcpy2DAsync(h, 100, p, 100, 100, rows, cudaMemcpyDeviceToHost, s),
		         cudaMemcpy2D(source, 100, p, 100, 100, rows, cudaMemcpyDeviceToDevice)});
		tell(i, {cudaGetLastError(), cudaMemset(p + n, 9, 0), cudaMemset2D(p, n + 1, 1, n, 1)}); // two that are right
	}
	state("refused");
	if (what == "freed") {
		TRY(cudaFree(all[0]));
		tell(0, {cudaMemset(all[0], 9, 10), cudaMemcpy(all[0], source, 10, cudaMemcpyDeviceToDevice)});
	}
	TRY(cudaDeviceSynchronize());
	for (int i = what == "freed" ? 1 : 0; i < 8; i++)
		say("%ld", digest(reinterpret_cast<int *>(all[i]), static_cast<int>(sizes[i % 4] / sizeof(int))));
	say("source %ld host %d", digest(reinterpret_cast<int *>(source), mib), host == std::vector<int>(mib, 77));
	for (int i = what == "freed" ? 1 : 0; i < 8; i++)
		TRY(cudaFree(all[i]));
	TRY(cudaFree(source));
	TRY(cudaStreamDestroy(s));
	state("after");
}

static cudaError_t copy_batch(const void **to, const void **from, const size_t *bytes, size_t count)
{
	cudaMemcpyAttributes any = {1, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_DEVICE, 0}, 0};
	size_t first = 0;
#if FAKE_NVCC == 13
	return cudaMemcpyBatchAsync(to, from, bytes, count, &any, &first, 1, nullptr);
#else
	size_t failed = SIZE_MAX;
	cudaError_t error = cudaMemcpyBatchAsync(to, from, bytes, count, &any, &first, 1, &failed, nullptr);
	if (error != cudaSuccess && failed >= count)
		say("failed %zu", failed);
	return error;
#endif
}

// beyond_boxes: the same of copies and sets of other shapes. Each is once right.
void beyond_boxes()
{
	register_variables();
	const cudaChannelFormatDesc ints = {32, 0, 0, 0, 0};
	const size_t n = 4 * 3 * 100; // slices of three rows of 100 bytes
	std::vector<char> host(2 * n, 3);
	char *x = device<char>(n), *y = device<char>(n);
	cudaArray_t array = nullptr;
	TRY(cudaMallocArray(&array, &ints, 25, 8, 0));
	TRY(cudaMemset(x, 1, n));
	TRY(cudaMemset(y, 2, n));
	for (size_t depth : {4, 5}) {
		const cudaExtent box = {100, 3, depth};
		tell(3, {cudaMemset3D({x, 100, 100, 3}, 7, box), cudaMemset3DAsync({x, 100, 100, 3}, 8, box, nullptr)});
		for (size_t row : {0, 1}) {
			cudaMemcpy3DParms copy = {};
			copy.srcPtr = {host.data(), 100, 100, 3};
			copy.dstPtr = {x, 100, 100, 3};
			copy.dstPos.y = row;
			copy.extent = box;
			copy.kind = cudaMemcpyHostToDevice;
			cudaMemcpy3DPeerParms peer = {};
			peer.srcPtr = {y, 100, 100, 3};
			peer.dstPtr = {x, 100, 100, 3};
			peer.srcPos.y = row;
			peer.extent = box;
			tell(4, {cudaMemcpy3D(&copy), cudaMemcpy3DAsync(&copy, nullptr), cudaMemcpy3DPeer(&peer),
			         cudaMemcpy3DPeerAsync(&peer, nullptr)});
		}
	}
	for (size_t rows : {8, 13}) { // of the 12 that there are
		const size_t bytes = rows == 8 ? n : n + 1;
		const void *to[] = {y, x}, *from[] = {x, y};
		const size_t each[] = {bytes, n};
		tell(5, {cudaMemcpy2DToArray(array, 0, 0, x, 100, 100, std::min<size_t>(rows, 8), cudaMemcpyDeviceToDevice),
		         cudaMemcpy2DToArray(array, 0, 0, x + n - 100, 100, 100, rows - 7, cudaMemcpyDeviceToDevice),
		         cudaMemcpy2DFromArray(y + (rows - 8) * 200, 100, array, 0, 0, 100, 8, cudaMemcpyDeviceToDevice)});
		tell(6, {cudaMemcpyFromSymbol(x + n - 16, table, 4 * (rows / 2), 0, cudaMemcpyDeviceToDevice),
		         cudaMemcpyToSymbol(table, x + n - 20 + rows, 12, 0, cudaMemcpyDeviceToDevice)});
		tell(7, {copy_batch(to, from, each, 2)});
	}
	TRY(cudaDeviceSynchronize());
	say("x %ld y %ld", digest(reinterpret_cast<int *>(x), n / 4), digest(reinterpret_cast<int *>(y), n / 4));
	TRY(cudaFreeArray(array));
	TRY(cudaFree(x));
	TRY(cudaFree(y));
}
