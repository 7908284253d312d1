#include "device_network.h"

#include "common/suite.h"
#include "kernels.h"

/* Pairs each array of a bank on the device with its array in a model. */
template <typename P, typename F> static void each_parameter(const bank_arrays &a, P &p, F visit)
{
	visit(a.weights, p.weights);
	visit(a.biases, p.biases);
	visit(a.scales, p.scales);
	visit(a.means, p.means);
	visit(a.variances, p.variances);
}

device_network::device_network(const network &net, const model &start, bool training, uint64_t seed)
    : net_(net), training_(training), arrays_{}
{
	const footprint need = {footprint_bytes(net, training), "", dim3(), dim3()};

	for_each_array(net, training, &arrays_, [](const char *purpose, void **pointer, size_t bytes) {
		*pointer = device_alloc_bytes(bytes, purpose);
	});
	check_footprint(need);
	/* Only updates and the states of recurrent layers are read before the passes write
	 * them, so only these are cleared. */
	for (size_t i = 0; i < net.layers.size(); i++) {
		const layer &l = net.layers[i];
		const layer_arrays &a = arrays_.layers[i];
		for (size_t j = 0; j < l.banks.size(); j++) {
			each_parameter(a.banks[j], start.layers[i][j], [](float *device, const std::vector<float> &from) {
				if (!from.empty())
					copy_to_device(device, from.data(), from.size() * sizeof(float));
			});
			if (!training)
				continue;
			fill(l.banks[j].weights(), 0, a.banks[j].weight_updates);
			fill(l.banks[j].filters, 0, a.banks[j].bias_updates);
			if (l.banks[j].normalize)
				fill(l.banks[j].filters, 0, a.banks[j].scale_updates);
		}
		if (a.state)
			fill(size_t(net.batch) * l.banks[0].filters, 0, a.state);
		if (a.random && !random_)
			random_.reset(new device_random(seed));
	}
	blas_.reset(new blas(arrays_.blas_workspace, BLAS_WORKSPACE_BYTES));
}

device_network::~device_network()
{
	blas_.reset();
	random_.reset();
	for_each_array(net_, training_, &arrays_, [](const char *, void **pointer, size_t) { device_free(*pointer); });
}

void device_network::forward_bank(const bank &b, const bank_arrays &a, size_t spatial, float *values)
{
	const int batch = net_.batch;
	const size_t n = batch * b.filters * spatial;

	if (b.normalize) {
		if (training_) {
			copy(n, values, a.sums);
			filter_means(batch, b.filters, spatial, values, a.batch_means);
			filter_variances(batch, b.filters, spatial, values, a.batch_means, a.batch_variances);
			scale(b.filters, .99f, a.means);
			axpy(b.filters, .01f, a.batch_means, a.means);
			scale(b.filters, .99f, a.variances);
			axpy(b.filters, .01f, a.batch_variances, a.variances);
			normalize(batch, b.filters, spatial, a.batch_means, a.batch_variances, values);
			copy(n, values, a.normalized);
		} else {
			normalize(batch, b.filters, spatial, a.means, a.variances, values);
		}
		scale_filters(batch, b.filters, spatial, a.scales, values);
	}
	add_bias(batch, b.filters, spatial, a.biases, values);
	activate(n, b.act, values);
}

void device_network::backward_bank(const bank &b, const bank_arrays &a, size_t spatial, const float *output,
                                   float *delta)
{
	const int batch = net_.batch;

	slope(batch * b.filters * spatial, b.act, output, delta);
	bias_gradient(batch, b.filters, spatial, delta, a.bias_updates);
	if (!b.normalize)
		return;
	scale_gradient(batch, b.filters, spatial, a.normalized, delta, a.scale_updates);
	scale_filters(batch, b.filters, spatial, a.scales, delta);
	mean_delta(batch, b.filters, spatial, delta, a.batch_variances, a.mean_deltas);
	variance_delta(batch, b.filters, spatial, a.sums, delta, a.batch_means, a.batch_variances, a.variance_deltas);
	normalize_delta(batch, b.filters, spatial, a.sums, a.batch_means, a.batch_variances, a.mean_deltas,
	                a.variance_deltas, delta);
}

/* A convolution is one product for each image and group: filters x weights by
 * weights x windows. */
void device_network::forward_convolutional(const layer &l, const layer_arrays &a, const float *input)
{
	const int filters = l.out_c / l.groups, weights = l.banks[0].inputs, spatial = int(l.spatial());
	const size_t plane = size_t(l.w) * l.h * (l.c / l.groups);

	for (int part = 0; part < net_.batch * l.groups; part++) {
		const float *image = input + part * plane;
		if (l.needs_columns())
			im2col(l, image, arrays_.columns);
		blas_->multiply(false, false, filters, spatial, weights,
		                a.banks[0].weights + size_t(part % l.groups) * filters * weights,
		                l.needs_columns() ? arrays_.columns : image, 0,
		                a.output + size_t(part) * filters * spatial);
	}
	forward_bank(l.banks[0], a.banks[0], spatial, a.output);
}

void device_network::backward_convolutional(const layer &l, const layer_arrays &a, const float *input,
                                            float *input_delta)
{
	const int filters = l.out_c / l.groups, weights = l.banks[0].inputs, spatial = int(l.spatial());
	const size_t plane = size_t(l.w) * l.h * (l.c / l.groups);

	backward_bank(l.banks[0], a.banks[0], spatial, a.output, a.delta);
	for (int part = 0; part < net_.batch * l.groups; part++) {
		const size_t first = size_t(part % l.groups) * filters * weights;
		const float *image = input + part * plane, *delta = a.delta + size_t(part) * filters * spatial;
		if (l.needs_columns())
			im2col(l, image, arrays_.columns);
		blas_->multiply(false, true, filters, weights, spatial, delta, l.needs_columns() ? arrays_.columns : image,
		                1, a.banks[0].weight_updates + first);
		if (!input_delta)
			continue;
		if (l.needs_columns()) {
			blas_->multiply(true, false, weights, spatial, filters, a.banks[0].weights + first, delta, 0,
			                arrays_.columns);
			col2im(l, arrays_.columns, input_delta + part * plane);
		} else {
			blas_->multiply(true, false, weights, spatial, filters, a.banks[0].weights + first, delta, 1,
			                input_delta + part * plane);
		}
	}
}

void device_network::forward_connected(const bank &b, const bank_arrays &a, const float *input, float *output)
{
	blas_->multiply(false, true, net_.batch, b.filters, b.inputs, input, a.weights, 0, output);
	forward_bank(b, a, 1, output);
}

void device_network::backward_connected(const layer &l, const layer_arrays &a, const float *input,
                                        float *input_delta)
{
	const bank &b = l.banks[0];

	backward_bank(b, a.banks[0], 1, a.output, a.delta);
	blas_->multiply(true, false, b.filters, b.inputs, net_.batch, a.delta, input, 1, a.banks[0].weight_updates);
	if (input_delta)
		blas_->multiply(false, false, net_.batch, b.inputs, b.filters, a.delta, a.banks[0].weights, 1, input_delta);
}

/* state = f(input) + g(old state); output = h(state): Darknet's simple
 * recurrent layer. */
void device_network::forward_rnn(const layer &l, const layer_arrays &a, const float *input)
{
	const size_t hidden = size_t(net_.batch) * l.banks[0].filters;

	forward_connected(l.banks[0], a.banks[0], input, a.banks[0].output);
	forward_connected(l.banks[1], a.banks[1], a.state, a.banks[1].output);
	copy(hidden, a.banks[0].output, a.state);
	axpy(hidden, 1, a.banks[1].output, a.state);
	forward_connected(l.banks[2], a.banks[2], a.state, a.output);
}

void device_network::make_loss(const layer &l, const layer_arrays &a)
{
	const size_t n = net_.batch * l.outputs();

	if (l.kind == layer_kind::softmax)
		cross_entropy(n, arrays_.truth, a.output, a.losses, a.delta);
	else
		squared_error(n, l.scale, arrays_.truth, a.output, a.losses, a.delta);
}

void device_network::forward()
{
	const int batch = net_.batch;

	for (size_t i = 0; i < net_.layers.size(); i++) {
		const layer &l = net_.layers[i];
		const layer_arrays &a = arrays_.layers[i];
		const size_t n = batch * l.outputs();
		const float *input = input_of(i);
		if (training_)
			fill(n, 0, a.delta);
		switch (l.kind) {
		case layer_kind::convolutional: forward_convolutional(l, a, input); break;
		case layer_kind::connected: forward_connected(l.banks[0], a.banks[0], input, a.output); break;
		case layer_kind::rnn: forward_rnn(l, a, input); break;
		case layer_kind::maxpool: maxpool(l, batch, input, a.output, a.largest); break;
		case layer_kind::avgpool: avgpool(l, batch, input, a.output); break;
		case layer_kind::shortcut:
			copy(n, input, a.output);
			add_sampled(l, net_.layers[l.from[0]], batch, arrays_.layers[l.from[0]].output, a.output);
			activate(n, l.act, a.output);
			break;
		case layer_kind::route: {
			size_t offset = 0;
			for (int from : l.from) {
				const size_t size = net_.layers[from].outputs();
				insert(batch, size, arrays_.layers[from].output, offset, l.outputs(), a.output);
				offset += size;
			}
			break;
		}
		case layer_kind::upsample: upsample(l, batch, input, a.output); break;
		case layer_kind::reorg: reorg(l, batch, input, a.output); break;
		case layer_kind::yolo:
		case layer_kind::region:
			copy(n, input, a.output);
			head_chances(l, batch, a.output);
			break;
		case layer_kind::softmax: softmax(l, batch, input, a.output); break;
		case layer_kind::cost: copy(n, input, a.output); break;
		case layer_kind::dropout:
			if (training_) {
				random_->fill(a.random, n);
				dropout(l, batch, a.random, input, a.output);
			} else {
				copy(n, input, a.output);
			}
			break;
		}
	}
}

void device_network::backward()
{
	const int batch = net_.batch;

	for (size_t i = net_.layers.size(); i-- > 0;) {
		const layer &l = net_.layers[i];
		const layer_arrays &a = arrays_.layers[i];
		const size_t n = batch * l.outputs();
		float *before = i ? arrays_.layers[i - 1].delta : nullptr;
		/* The first layer only makes updates. */
		if (!before && l.banks.empty())
			continue;
		switch (l.kind) {
		case layer_kind::convolutional: backward_convolutional(l, a, input_of(i), before); break;
		case layer_kind::connected: backward_connected(l, a, input_of(i), before); break;
		case layer_kind::maxpool: maxpool_back(l, batch, a.largest, a.delta, before); break;
		case layer_kind::avgpool: avgpool_back(l, batch, a.delta, before); break;
		case layer_kind::shortcut:
			slope(n, l.act, a.output, a.delta);
			axpy(n, 1, a.delta, before);
			add_sampled_back(l, net_.layers[l.from[0]], batch, a.delta, arrays_.layers[l.from[0]].delta);
			break;
		case layer_kind::route: {
			size_t offset = 0;
			for (int from : l.from) {
				const size_t size = net_.layers[from].outputs();
				extract_add(batch, size, arrays_.layers[from].delta, offset, l.outputs(), a.delta);
				offset += size;
			}
			break;
		}
		case layer_kind::upsample: upsample_back(l, batch, a.delta, before); break;
		case layer_kind::softmax:
		case layer_kind::cost: axpy(n, 1, a.delta, before); break;
		case layer_kind::dropout: dropout_back(l, batch, a.random, a.delta, before); break;
		case layer_kind::rnn:
		case layer_kind::reorg:
		case layer_kind::yolo:
		case layer_kind::region: break; /* require_trainable refuses them */
		}
	}
}

void device_network::predict(const float *images)
{
	copy_to_device(arrays_.input, images, net_.batch * net_.inputs() * sizeof(float));
	forward();
}

double device_network::train(const float *images, const float *truths)
{
	const layer_arrays &last = arrays_.layers.back();
	const size_t n = net_.batch * net_.outputs();
	double loss = 0;

	copy_to_device(arrays_.input, images, net_.batch * net_.inputs() * sizeof(float));
	copy_to_device(arrays_.truth, truths, n * sizeof(float));
	forward();
	make_loss(net_.layers.back(), last);
	backward();
	for (float part : values(last.losses, n))
		loss += part;
	return loss;
}

static void step(size_t n, double rate, double momentum, float *values, float *updates)
{
	axpy(n, float(rate), updates, values);
	scale(n, float(momentum), updates);
}

void device_network::update(double rate)
{
	const double images = double(net_.batch) * net_.subdivisions;

	for (size_t i = 0; i < net_.layers.size(); i++)
		for (size_t j = 0; j < net_.layers[i].banks.size(); j++) {
			const bank &b = net_.layers[i].banks[j];
			const bank_arrays &a = arrays_.layers[i].banks[j];
			axpy(b.weights(), float(-net_.decay * images), a.weights, a.weight_updates);
			step(b.weights(), rate / images, net_.momentum, a.weights, a.weight_updates);
			step(b.filters, rate / images, net_.momentum, a.biases, a.bias_updates);
			if (b.normalize)
				step(b.filters, rate / images, net_.momentum, a.scales, a.scale_updates);
		}
}

std::vector<float> device_network::values(const float *device, size_t count) const
{
	std::vector<float> copied(count);

	copy_to_host(copied.data(), device, count * sizeof(float));
	return copied;
}

void device_network::read_output(size_t layer, std::vector<float> *to) const
{
	to->resize(net_.batch * net_.layers[layer].outputs());
	copy_to_host(to->data(), arrays_.layers[layer].output, to->size() * sizeof(float));
}

std::vector<float> device_network::output(size_t layer) const
{
	std::vector<float> copied;

	read_output(layer, &copied);
	return copied;
}

model device_network::learned() const
{
	model copied = {};

	for (size_t i = 0; i < net_.layers.size(); i++) {
		copied.layers.emplace_back();
		for (size_t j = 0; j < net_.layers[i].banks.size(); j++) {
			const bank &b = net_.layers[i].banks[j];
			const size_t normalized = b.normalize ? b.filters : 0;
			parameters p;
			p.weights.resize(b.weights());
			p.biases.resize(b.filters);
			p.scales.resize(normalized);
			p.means.resize(normalized);
			p.variances.resize(normalized);
			each_parameter(arrays_.layers[i].banks[j], p, [](const float *device, std::vector<float> &to) {
				if (!to.empty())
					copy_to_host(to.data(), device, to.size() * sizeof(float));
			});
			copied.layers.back().push_back(p);
		}
	}
	return copied;
}
