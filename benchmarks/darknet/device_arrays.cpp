#include "device_arrays.h"

#include <math.h>
#include <stdio.h>

#include <algorithm>
#include <map>

namespace {

class enumeration {
public:
	using visitor = std::function<void(const char *, void **, size_t)>;

	enumeration(const network &net, bool training, const visitor &visit)
	    : net_(net), training_(training), visit_(visit)
	{
	}
	void layer_of(const layer &l, bool last, layer_arrays *a) const;
	template <typename T> void one(const char *purpose, T **pointer, size_t count) const
	{
		if (count)
			visit_(purpose, reinterpret_cast<void **>(pointer), count * sizeof(T));
	}

private:
	void bank_of(const bank &b, size_t spatial, bank_arrays *a) const;

	const network &net_;
	bool training_;
	const visitor &visit_;
};

void enumeration::bank_of(const bank &b, size_t spatial, bank_arrays *a) const
{
	const size_t filters = b.filters, values = net_.batch * filters * spatial;

	one("weights", &a->weights, b.weights());
	one("weights", &a->biases, filters);
	if (b.normalize) {
		one("weights", &a->scales, filters);
		one("weights", &a->means, filters);
		one("weights", &a->variances, filters);
	}
	if (!training_)
		return;
	one("updates", &a->weight_updates, b.weights());
	one("updates", &a->bias_updates, filters);
	if (!b.normalize)
		return;
	one("updates", &a->scale_updates, filters);
	one("normalization", &a->sums, values);
	one("normalization", &a->normalized, values);
	one("normalization", &a->batch_means, filters);
	one("normalization", &a->batch_variances, filters);
	one("normalization", &a->mean_deltas, filters);
	one("normalization", &a->variance_deltas, filters);
}

void enumeration::layer_of(const layer &l, bool last, layer_arrays *a) const
{
	const size_t values = net_.batch * l.outputs();

	for (size_t j = 0; j < l.banks.size(); j++)
		bank_of(l.banks[j], l.spatial(), &a->banks[j]);
	one("outputs", &a->output, values);
	if (l.kind == layer_kind::rnn) {
		const size_t hidden = size_t(net_.batch) * l.banks[0].filters;
		one("outputs", &a->state, hidden);
		one("outputs", &a->banks[0].output, hidden);
		one("outputs", &a->banks[1].output, hidden);
	}
	if (!training_)
		return;
	one("deltas", &a->delta, values);
	if (l.kind == layer_kind::maxpool)
		one("outputs", &a->largest, values);
	if (l.kind == layer_kind::dropout)
		one("outputs", &a->random, values);
	if (last)
		one("outputs", &a->losses, values);
}

} // namespace

void for_each_array(const network &net, bool training, device_arrays *arrays,
                    const std::function<void(const char *, void **, size_t)> &visit)
{
	const enumeration all(net, training, visit);
	size_t columns = 0;

	arrays->layers.resize(net.layers.size());
	for (size_t i = 0; i < net.layers.size(); i++) {
		const layer &l = net.layers[i];
		all.layer_of(l, i + 1 == net.layers.size(), &arrays->layers[i]);
		if (l.kind == layer_kind::convolutional && l.needs_columns())
			columns = std::max(columns, l.columns());
	}
	all.one("input", &arrays->input, net.batch * net.inputs());
	if (training)
		all.one("input", &arrays->truth, net.batch * net.outputs());
	all.one("workspace", &arrays->columns, columns);
	all.one("cuBLAS", &arrays->blas_workspace, BLAS_WORKSPACE_BYTES / sizeof(float));
}

grid_size grid_of(size_t n)
{
	const size_t blocks = (n - 1) / BLOCK + 1;

	if (blocks <= 65535)
		return {unsigned(blocks), 1};
	const size_t x = size_t(ceil(sqrt(double(blocks))));
	return {unsigned(x), unsigned((n - 1) / (x * BLOCK) + 1)};
}

largest_kernel largest_kernel_of(const network &net, bool training)
{
	largest_kernel most = {"", 0};
	const auto consider = [&](const char *name, size_t threads) {
		if (threads > most.threads)
			most = {name, threads};
	};

	for (const layer &l : net.layers) {
		if (l.kind == layer_kind::upsample)
			consider("upsample", net.batch * l.outputs());
		if (l.kind == layer_kind::maxpool)
			consider("maxpool", net.batch * l.outputs());
		if (l.kind == layer_kind::convolutional && l.needs_columns())
			consider("im2col", l.spatial() * (l.c / l.groups));
		for (const bank &b : l.banks) {
			consider("activate", net.batch * b.filters * l.spatial());
			if (training)
				consider("axpy", b.weights());
		}
	}
	return most;
}

uint64_t footprint_bytes(const network &net, bool training)
{
	device_arrays arrays = {};
	uint64_t total = 0;

	for_each_array(net, training, &arrays, [&](const char *, void **, size_t bytes) { total += bytes; });
	return total;
}

void print_network_footprint(const network &net, bool training)
{
	device_arrays arrays = {};
	std::map<std::string, uint64_t> purposes;
	const largest_kernel most = largest_kernel_of(net, training);
	const grid_size grid = grid_of(most.threads);

	for_each_array(net, training, &arrays,
	               [&](const char *purpose, void **, size_t bytes) { purposes[purpose] += bytes; });
	printf("bytes=%llu kernel=%s grid=%ux%ux1 block=%dx1x1\n",
	       (unsigned long long)footprint_bytes(net, training), most.name, grid.x, grid.y, int(BLOCK));
	for (const auto &purpose : purposes)
		printf("  %llu %s\n", (unsigned long long)purpose.second, purpose.first.c_str());
}
