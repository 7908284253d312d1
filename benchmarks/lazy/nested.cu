/* Device addresses inside device memory: an array of device pointers, a
 * structure of pointers passed by value, and a list linked on the host. */
#include "common.h"

struct node {
	node *next;
	uint32_t *values;
	uint32_t count;
};

struct views {
	uint32_t **rows;
	node *head;
	uint32_t *totals;
	uint32_t row_count, row_length;
};

static __global__ void sum_rows(views v)
{
	const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;

	if (row >= v.row_count)
		return;
	uint32_t total = 0;
	for (uint32_t i = 0; i < v.row_length; i++)
		total = total * 31 + v.rows[row][i]++;
	v.totals[row] = total;
}

static __global__ void walk(const node *head, uint32_t *total)
{
	for (const node *n = head; n; n = n->next)
		for (uint32_t i = 0; i < n->count; i++)
			*total = *total * 31 + n->values[i];
}

int main()
{
	const uint32_t rows = 600, length = 700, nodes = 50;
	std::vector<uint32_t *> row(rows);
	std::vector<node *> place(nodes);
	std::vector<uint32_t *> values(nodes);
	digest sum;

	for (uint32_t r = 0; r < rows; r++) {
		row[r] = device_alloc<uint32_t>(length);
		to_device(row[r], numbers(length, r));
	}
	uint32_t **table = device_alloc<uint32_t *>(rows);
	to_device(table, row);
	for (uint32_t i = 0; i < nodes; i++) {
		place[i] = device_alloc<node>(1);
		values[i] = device_alloc<uint32_t>(i + 1);
		to_device(values[i], numbers(i + 1, 1000 + i));
	}
	for (uint32_t i = 0; i < nodes; i++) {
		const node host = {i + 1 < nodes ? place[i + 1] : nullptr, values[i], i + 1};
		CUDA(cudaMemcpy(place[i], &host, sizeof host, cudaMemcpyHostToDevice));
	}
	uint32_t *totals = device_alloc<uint32_t>(rows), *total = device_alloc<uint32_t>(1);
	CUDA(cudaMemset(total, 0, sizeof *total));

	for (int round = 0; round < 2; round++) {
		const views v = {table, place[0], totals, rows, length};
		sum_rows<<<blocks_for(rows), BLOCK>>>(v);
		CUDA_LAUNCHED();
		walk<<<1, 1>>>(place[0], total);
		CUDA_LAUNCHED();
		sum.add_device(totals, rows);
		sum.add_device(total, 1);
	}
	for (uint32_t r = 0; r < rows; r++) {
		sum.add_device(row[r], length);
		CUDA(cudaFree(row[r]));
	}
	for (uint32_t i = 0; i < nodes; i++) {
		CUDA(cudaFree(values[i]));
		CUDA(cudaFree(place[i]));
	}
	CUDA(cudaFree(table));
	CUDA(cudaFree(totals));
	CUDA(cudaFree(total));
	sum.print();
	return 0;
}
