// references.cc: a program with some arrays. Each line of its input uses some of them.
#include <stdlib.h>

#include "program.h"

// Kernels that are given an array in different ways.
static void plus(int *x, int n, int by) { add(x, n, by); }
FAKE_KERNEL(plus);

struct Part {
	char name;
	int *x;
	int n;
};
static void plus_in(Part part, int by) { add(part.x, part.n, by); }
FAKE_KERNEL(plus_in);

// A structure that need not begin at a multiple of 8 bytes, as its pointer does.
#pragma pack(push, 4)
struct Apart {
	int n;
	int *x;
};
#pragma pack(pop)
static void plus_apart(int by, Apart apart) { add(apart.x, apart.n, by); }
FAKE_KERNEL(plus_apart);

static void plus_both(char first, int *x, int n, int *y, int m)
{
	add(x, n, first);
	add(y, m, first);
}
FAKE_KERNEL(plus_both);

static void plus_silent(int *x, int n, int by) { add(x, n, by); }
FAKE_SILENT_KERNEL(plus_silent);

static void plus_behind(int **x, int n, int by) { add(*x, n, by); }
FAKE_KERNEL(plus_behind);

struct Array {
	int *x;
	int n;
	int **behind; // memory with the address
};

static cudaError_t use(const char *way, const Array &a, const Array &b)
{
	if (strcmp(way, "plus") == 0)
		return LAUNCH(plus, grid, block, 0, nullptr, a.x + a.n / 2, a.n / 2, 1) | LAUNCH(plus, grid, block, 0, nullptr, a.x, a.n / 2, 1);
	if (strcmp(way, "in") == 0)
		return LAUNCH(plus_in, grid, block, 0, nullptr, Part{'x', a.x, a.n}, 1);
	if (strcmp(way, "apart") == 0)
		return LAUNCH(plus_apart, grid, block, 0, nullptr, 1, Apart{a.n, a.x});
	if (strcmp(way, "both") == 0)
		return LAUNCH(plus_both, grid, block, 0, nullptr, '\1', a.x, a.n, b.x, b.n);
	if (strcmp(way, "silent") == 0)
		return LAUNCH(plus_silent, grid, block, 0, nullptr, a.x, a.n, 1);
	if (strcmp(way, "behind") == 0)
		return LAUNCH(plus_behind, grid, block, 0, nullptr, a.behind, a.n, 1);
	return cudaErrorInvalidValue;
}

const size_t chunk = 4 * mib; // of the tests' scheduler

// where is a letter for each chunk: d on the device, h mapped from the host, - not mapped.
static std::string where(const Array &a)
{
	const auto mapped = driver_call<decltype(fake_cuda_mapped)>("fake_cuda_mapped");
	std::string all;
	for (size_t at = 0; at < static_cast<size_t>(a.n) * 4; at += chunk)
		all += mapped(reinterpret_cast<char *>(a.x) + at);
	return all;
}

// value is the value of all elements of an array whose elements are equal.
static int value(const Array &a)
{
	std::vector<int> out(static_cast<size_t>(a.n));
	TRY(cudaMemcpy(out.data(), a.x, out.size() * 4, cudaMemcpyDeviceToHost));
	for (int v : out)
		if (v != out[0])
			return -1;
	return out[0];
}

// errors is what CUDA answers to calls that name memory which is not the array's, or no memory at all.
static std::string errors(const Array &a)
{
	int two[2] = {7, 7}, *gone = device<int>(static_cast<size_t>(a.n)), *huge = nullptr;
	std::string all = "errors";
	const auto note = [&all](cudaError_t error) {
		all += " " + std::to_string(error);
		cudaGetLastError();
	};

	TRY(cudaMemset(gone, 0, 4));
	TRY(cudaFree(gone));
	note(cudaFree(gone)); // twice
	note(cudaMemcpy(gone, two, sizeof two, cudaMemcpyHostToDevice));
	note(cudaMemcpy(two, gone, sizeof two, cudaMemcpyDeviceToHost));
	note(cudaFree(a.x + 1)); // in the middle
	note(cudaFree(two));
	note(cudaMemcpy(a.x + a.n - 1, two, sizeof two, cudaMemcpyHostToDevice)); // beyond the end
	note(cudaMemcpy(two, a.x + a.n - 1, sizeof two, cudaMemcpyDeviceToHost));
	note(cudaMemset(a.x + a.n - 1, 7, sizeof two));
	note(cudaMalloc(reinterpret_cast<void **>(&huge), size_t{1} << 50));
	note(cudaMemcpy(a.x, two, 4, 9));
	return all;
}

static void capture(cudaStream_t stream, const Array &a)
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	TRY(cudaStreamBeginCapture(stream, 0));
	TRY(LAUNCH(plus, grid, block, 0, stream, a.x, a.n, 1));
	TRY(cudaStreamEndCapture(stream, &graph));
	TRY(cudaGraphInstantiate(&executable, graph, 0, nullptr, 0));
	TRY(cudaGraphLaunch(executable, stream));
	TRY(cudaStreamSynchronize(stream));
	TRY(cudaGraphExecDestroy(executable));
	TRY(cudaGraphDestroy(graph));
}

// driven makes arrays of the sizes, in MiB, and does for each line of input what it says:
//
//	WAY I [J]  a kernel adds 1 to all elements of array I, and of J
//	graph I    the same with a graph
//	idle N     a kernel that is given nothing, N times
//	where      where the chunks of all arrays are
//	values     the values of all arrays
//	errors I   the errors of wrong calls
//	touches    how often kernels touched host memory, and the most device memory in use since the last such line
//	free I     frees the array
void driven(const char *sizes)
{
	std::vector<Array> arrays;
	cudaStream_t stream = nullptr;
	char line[100], way[20];
	uint64_t most = 0;

	for (char *end; *sizes != '\0'; sizes = *end == ',' ? end + 1 : end) {
		const int n = static_cast<int>(strtol(sizes, &end, 10) * static_cast<long>(mib / 4));
		arrays.push_back({device<int>(static_cast<size_t>(n)), n, device<int *>(1)});
		const Array &a = arrays.back();
		TRY(cudaMemset(a.x, 0, static_cast<size_t>(n) * 4));
		TRY(cudaMemcpy(a.behind, &a.x, sizeof a.x, cudaMemcpyHostToDevice));
	}
	TRY(cudaStreamCreate(&stream));
	while (fgets(line, sizeof line, stdin) != nullptr) {
		int i = 0, j = 0;
		std::string answer = "done";
		if (sscanf(line, "%19s %d %d", way, &i, &j) < 1)
			continue;
		if (strcmp(way, "where") == 0 || strcmp(way, "values") == 0) {
			answer = way;
			for (const Array &a : arrays)
				answer += " " + (way[0] == 'w' ? where(a) : std::to_string(value(a)));
		} else if (strcmp(way, "touches") == 0) {
			static unsigned before;
			TRY(cudaDeviceSynchronize());
			const fake_cuda_state now = fake_state();
			answer = std::to_string(now.host_touches - before) + " " + std::to_string(most / mib);
			before = now.host_touches;
			most = 0;
		} else if (strcmp(way, "errors") == 0) {
			answer = errors(arrays.at(static_cast<size_t>(i)));
		} else if (strcmp(way, "graph") == 0) {
			capture(stream, arrays.at(static_cast<size_t>(i)));
		} else if (strcmp(way, "idle") == 0) {
			for (int n = 0; n < i; n++)
				TRY(LAUNCH(nothing, grid, block, 0, nullptr));
		} else if (strcmp(way, "free") == 0) {
			TRY(cudaFree(arrays.at(static_cast<size_t>(i)).x));
			TRY(cudaFree(arrays.at(static_cast<size_t>(i)).behind));
			arrays.erase(arrays.begin() + i);
		} else {
			TRY(use(way, arrays.at(static_cast<size_t>(i)), arrays.at(static_cast<size_t>(j))));
		}
		const fake_cuda_state now = fake_state();
		for (uint64_t used : now.used)
			most = used > most ? used : most;
		say("%s", answer.c_str());
	}
	for (const Array &a : arrays) {
		TRY(cudaFree(a.x));
		TRY(cudaFree(a.behind));
	}
	state("after");
}
