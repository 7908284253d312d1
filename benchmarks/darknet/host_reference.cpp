#include "host_reference.h"

#include <math.h>

#include <algorithm>

/* Added to a variance before its root is taken. */
static const double EPSILON = .00001;

static double activated(activation act, double x)
{
	switch (act) {
	case activation::linear: return x;
	case activation::leaky: return x > 0 ? x : .1 * x;
	case activation::logistic: return 1 / (1 + exp(-x));
	case activation::relu: return x > 0 ? x : 0;
	case activation::tanh: return tanh(x);
	}
	return x;
}

/* slope returns the slope of the activation at the point where its value is y. */
static double slope(activation act, double y)
{
	switch (act) {
	case activation::linear: return 1;
	case activation::leaky: return y > 0 ? 1 : .1;
	case activation::logistic: return y * (1 - y);
	case activation::relu: return y > 0 ? 1 : 0;
	case activation::tanh: return 1 - y * y;
	}
	return 1;
}

static reals widened(const std::vector<float> &from)
{
	return reals(from.begin(), from.end());
}

host_network::host_network(const network &net, const model &start) : layers(net.layers.size()), net_(net)
{
	for (size_t i = 0; i < layers.size(); i++) {
		const layer &l = net.layers[i];
		layers[i].output.resize(net.batch * l.outputs());
		layers[i].delta.resize(net.batch * l.outputs());
		if (l.kind == layer_kind::rnn)
			layers[i].state.resize(size_t(net.batch) * l.banks[0].filters);
		for (size_t j = 0; j < l.banks.size(); j++) {
			const parameters &p = start.layers[i][j];
			bank_values v;
			v.biases = widened(p.biases);
			v.scales = widened(p.scales);
			v.means = widened(p.means);
			v.variances = widened(p.variances);
			v.weights = widened(p.weights);
			v.bias_updates.resize(p.biases.size());
			v.scale_updates.resize(p.scales.size());
			v.weight_updates.resize(p.weights.size());
			layers[i].banks.push_back(v);
		}
	}
}

/* The values of filter f, batch by batch, in an array of [batch][filter][spatial]. */
template <typename F> static void each_of_filter(int batch, int filters, size_t spatial, int f, F visit)
{
	for (int b = 0; b < batch; b++)
		for (size_t i = 0; i < spatial; i++)
			visit((size_t(b) * filters + f) * spatial + i);
}

/* finish_bank turns sums into outputs, in place. */
static void finish_bank(const bank &b, host_network::bank_values *v, int batch, size_t spatial, bool train,
                        reals *values)
{
	const double count = double(batch) * spatial;

	if (b.normalize && train) {
		v->batch_means.assign(b.filters, 0);
		v->batch_variances.assign(b.filters, 0);
		v->normalized.resize(values->size());
	}
	for (int f = 0; f < b.filters; f++) {
		if (b.normalize) {
			double mean = v->means[f], variance = v->variances[f];
			if (train) {
				double sum = 0, squares = 0;
				each_of_filter(batch, b.filters, spatial, f, [&](size_t i) { sum += (*values)[i]; });
				mean = sum / count;
				each_of_filter(batch, b.filters, spatial, f, [&](size_t i) {
					squares += ((*values)[i] - mean) * ((*values)[i] - mean);
				});
				variance = squares / count;
				v->batch_means[f] = mean;
				v->batch_variances[f] = variance;
				v->means[f] = .99 * v->means[f] + .01 * mean;
				v->variances[f] = .99 * v->variances[f] + .01 * variance;
			}
			each_of_filter(batch, b.filters, spatial, f, [&](size_t i) {
				const double normalized = ((*values)[i] - mean) / sqrt(variance + EPSILON);
				if (train)
					v->normalized[i] = normalized;
				(*values)[i] = normalized * v->scales[f];
			});
		}
		each_of_filter(batch, b.filters, spatial, f, [&](size_t i) {
			(*values)[i] = activated(b.act, (*values)[i] + v->biases[f]);
		});
	}
}

/* unfinish_bank turns the delta of the outputs into the delta of the sums, and adds to
 * the updates of biases and scales. The gradient of batch normalization is from Ioffe
 * and Szegedy (arXiv 1502.03167). */
static void unfinish_bank(const bank &b, host_network::bank_values *v, int batch, size_t spatial,
                          const reals &output, reals *delta)
{
	const double count = double(batch) * spatial;

	for (int f = 0; f < b.filters; f++) {
		double sum = 0, along = 0;
		each_of_filter(batch, b.filters, spatial, f, [&](size_t i) {
			(*delta)[i] *= slope(b.act, output[i]);
			sum += (*delta)[i];
			if (b.normalize)
				along += (*delta)[i] * v->normalized[i];
		});
		v->bias_updates[f] += sum;
		if (!b.normalize)
			continue;
		v->scale_updates[f] += along;
		const double factor = v->scales[f] / sqrt(v->batch_variances[f] + EPSILON);
		each_of_filter(batch, b.filters, spatial, f, [&](size_t i) {
			(*delta)[i] = factor * ((*delta)[i] - sum / count - v->normalized[i] * along / count);
		});
	}
}

/* each_tap calls visit(output, input, length, weight) for the pieces of rows that a
 * weight of a convolution connects: values output + i and input + i * stride for
 * i < length. */
template <typename F> static void each_tap(const layer &l, int batch, F visit)
{
	const int in_channels = l.c / l.groups, out_channels = l.out_c / l.groups;

	for (int b = 0; b < batch; b++)
		for (int f = 0; f < l.out_c; f++)
			for (int k = 0; k < in_channels; k++)
				for (int dy = 0; dy < l.size; dy++)
					for (int dx = 0; dx < l.size; dx++) {
						const size_t weight = ((size_t(f) * in_channels + k) * l.size + dy) * l.size + dx;
						const int channel = f / out_channels * in_channels + k;
						int first = 0, last = l.out_w - 1;
						while (first <= last && first * l.stride + dx < l.pad)
							first++;
						while (first <= last && last * l.stride + dx - l.pad >= l.w)
							last--;
						for (int y = 0; y < l.out_h; y++) {
							const int from = y * l.stride + dy - l.pad;
							if (from < 0 || from >= l.h || first > last)
								continue;
							visit(((size_t(b) * l.out_c + f) * l.out_h + y) * l.out_w + first,
							      ((size_t(b) * l.c + channel) * l.h + from) * l.w + first * l.stride + dx - l.pad,
							      last - first + 1, weight);
						}
					}
}

static void multiply(const layer &l, const reals &weights, int batch, const reals &input, reals *sums)
{
	std::fill(sums->begin(), sums->end(), 0);
	each_tap(l, batch, [&](size_t out, size_t in, int length, size_t weight) {
		const double by = weights[weight];
		for (int i = 0; i < length; i++)
			(*sums)[out + i] += by * input[in + size_t(i) * l.stride];
	});
}

static void unmultiply(const layer &l, host_network::bank_values *v, int batch, const reals &input,
                       const reals &delta, reals *input_delta)
{
	each_tap(l, batch, [&](size_t out, size_t in, int length, size_t weight) {
		double sum = 0;
		for (int i = 0; i < length; i++)
			sum += delta[out + i] * input[in + size_t(i) * l.stride];
		v->weight_updates[weight] += sum;
		if (!input_delta)
			return;
		for (int i = 0; i < length; i++)
			(*input_delta)[in + size_t(i) * l.stride] += v->weights[weight] * delta[out + i];
	});
}

/* flat returns a bank whose filters see the whole input as a convolution of one pixel. */
static layer flat(const bank &b)
{
	layer l = {};

	l.w = l.h = l.out_w = l.out_h = l.size = l.stride = l.groups = 1;
	l.c = b.inputs;
	l.out_c = b.filters;
	return l;
}

static void forward_rnn(const layer &l, int batch, const reals &input, host_network::layer_values *v)
{
	const reals *inputs[] = {&input, &v->state, &v->state};

	for (int j = 0; j < 3; j++) {
		host_network::bank_values &bv = v->banks[j];
		bv.output.resize(size_t(batch) * l.banks[j].filters);
		multiply(flat(l.banks[j]), bv.weights, batch, *inputs[j], &bv.output);
		finish_bank(l.banks[j], &bv, batch, 1, false, &bv.output);
		if (j == 1)
			for (size_t i = 0; i < v->state.size(); i++)
				v->state[i] = v->banks[0].output[i] + v->banks[1].output[i];
	}
	v->output = v->banks[2].output;
}

static void forward_maxpool(const layer &l, int batch, const reals &input, host_network::layer_values *v)
{
	size_t at = 0;

	v->largest.assign(v->output.size(), 0);
	for (int plane = 0; plane < batch * l.c; plane++)
		for (int y = 0; y < l.out_h; y++)
			for (int x = 0; x < l.out_w; x++, at++) {
				double best = -INFINITY;
				for (int from_y = y * l.stride - l.pad / 2; from_y < y * l.stride - l.pad / 2 + l.size; from_y++)
					for (int from_x = x * l.stride - l.pad / 2; from_x < x * l.stride - l.pad / 2 + l.size;
					     from_x++) {
						if (from_y < 0 || from_y >= l.h || from_x < 0 || from_x >= l.w)
							continue;
						const size_t from = (size_t(plane) * l.h + from_y) * l.w + from_x;
						if (input[from] > best) {
							best = input[from];
							v->largest[at] = from;
						}
					}
				v->output[at] = best;
			}
}

static void forward_softmax(const layer &l, int batch, const reals &input, reals *output)
{
	const size_t size = l.inputs() / l.groups;

	for (size_t first = 0; first < batch * l.inputs(); first += size) {
		const double largest = *std::max_element(&input[first], &input[first] + size);
		double sum = 0;
		for (size_t i = first; i < first + size; i++)
			sum += (*output)[i] = exp((input[i] - largest) / l.temperature);
		for (size_t i = first; i < first + size; i++)
			(*output)[i] /= sum;
	}
}

/* each_sample calls visit(output, other) for the values of the other layer that a shortcut
 * adds: each `stride`-th column and row of the channels that both have (He et al., arXiv
 * 1512.03385, option A). */
template <typename F> static void each_sample(const layer &l, const layer &other, int batch, F visit)
{
	for (int b = 0; b < batch; b++)
		for (int k = 0; k < std::min(l.c, other.out_c); k++)
			for (int y = 0; y < l.h; y++)
				for (int x = 0; x < l.w; x++)
					visit(((size_t(b) * l.c + k) * l.h + y) * l.w + x,
					      ((size_t(b) * other.out_c + k) * other.out_h + y * l.stride) * other.out_w + x * l.stride);
}

/* Darknet's order, which its weights depend on: with the input read as [c / s^2][h s][w s]
 * and the output as [s][s][c / s^2][h][w], output (dy, dx, k, y, x) is input
 * (k, y s + dy, x s + dx). */
static void forward_reorg(const layer &l, int batch, const reals &input, reals *output)
{
	const int s = l.stride, channels = l.c / (s * s);
	size_t at = 0;

	for (int b = 0; b < batch; b++)
		for (int dy = 0; dy < s; dy++)
			for (int dx = 0; dx < s; dx++)
				for (int k = 0; k < channels; k++)
					for (int y = 0; y < l.h; y++)
						for (int x = 0; x < l.w; x++)
							(*output)[at++] = input[((size_t(b) * channels + k) * l.h * s + y * s + dy) * l.w * s +
							                        x * s + dx];
}

/* Position and objectness of a head's boxes are logistic, and sizes stay. The chances of
 * classes are logistic in a yolo head, and in a region add up to 1. */
static void forward_head(const layer &l, reals *output)
{
	const size_t plane = l.spatial(), entries = l.classes + 5;

	for (size_t i = 0; i < output->size(); i++) {
		const size_t entry = i / plane % entries;
		double &value = (*output)[i];
		if (entry == 2 || entry == 3)
			continue;
		if (entry < 5 || l.kind == layer_kind::yolo) {
			value = activated(activation::logistic, value);
		} else if (entry == 5) {
			double sum = 0;
			for (int k = 0; k < l.classes; k++)
				sum += exp((*output)[i + k * plane]);
			for (int k = 0; k < l.classes; k++)
				(*output)[i + k * plane] = exp((*output)[i + k * plane]) / sum;
		}
	}
}

void host_network::forward(const float *input, const float *truth)
{
	const int batch = net_.batch;

	input_.assign(input, input + batch * net_.inputs());
	for (size_t i = 0; i < layers.size(); i++) {
		const layer &l = net_.layers[i];
		layer_values &v = layers[i];
		const reals &in = input_of(i);
		std::fill(v.delta.begin(), v.delta.end(), 0);
		switch (l.kind) {
		case layer_kind::convolutional:
			multiply(l, v.banks[0].weights, batch, in, &v.output);
			finish_bank(l.banks[0], &v.banks[0], batch, l.spatial(), truth, &v.output);
			break;
		case layer_kind::connected:
			multiply(flat(l.banks[0]), v.banks[0].weights, batch, in, &v.output);
			finish_bank(l.banks[0], &v.banks[0], batch, 1, truth, &v.output);
			break;
		case layer_kind::rnn: forward_rnn(l, batch, in, &v); break;
		case layer_kind::maxpool: forward_maxpool(l, batch, in, &v); break;
		case layer_kind::avgpool:
			for (size_t k = 0; k < v.output.size(); k++) {
				const size_t plane = size_t(l.w) * l.h;
				double sum = 0;
				for (size_t p = 0; p < plane; p++)
					sum += in[k * plane + p];
				v.output[k] = sum / plane;
			}
			break;
		case layer_kind::shortcut:
			v.output = in;
			each_sample(l, net_.layers[l.from[0]], batch,
			            [&](size_t k, size_t from) { v.output[k] += layers[l.from[0]].output[from]; });
			for (double &value : v.output)
				value = activated(l.act, value);
			break;
		case layer_kind::route: {
			size_t at = 0;
			for (int b = 0; b < batch; b++)
				for (int from : l.from) {
					const size_t size = net_.layers[from].outputs();
					std::copy_n(&layers[from].output[b * size], size, &v.output[at]);
					at += size;
				}
			break;
		}
		case layer_kind::upsample:
			for (size_t k = 0; k < v.output.size(); k++) {
				const size_t x = k % l.out_w, y = k / l.out_w % l.out_h, plane = k / l.spatial();
				v.output[k] = in[(plane * l.h + y / l.stride) * l.w + x / l.stride];
			}
			break;
		case layer_kind::reorg: forward_reorg(l, batch, in, &v.output); break;
		case layer_kind::yolo:
		case layer_kind::region:
			v.output = in;
			forward_head(l, &v.output);
			break;
		case layer_kind::softmax: forward_softmax(l, batch, in, &v.output); break;
		case layer_kind::cost: v.output = in; break;
		case layer_kind::dropout:
			for (size_t k = 0; k < v.output.size(); k++)
				v.output[k] = !truth ? in[k] : v.random[k] < l.probability ? 0 : in[k] * l.scale;
			break;
		}
	}
	if (!truth)
		return;
	const layer &last = net_.layers.back();
	layer_values &v = layers.back();
	loss_ = 0;
	for (size_t k = 0; k < v.output.size(); k++) {
		const double error = truth[k] - v.output[k];
		if (last.kind == layer_kind::softmax) {
			loss_ -= truth[k] ? log(v.output[k]) : 0;
			v.delta[k] = error;
		} else {
			loss_ += error * error;
			v.delta[k] = last.scale * error;
		}
	}
}

void host_network::adopt(const std::vector<std::vector<float>> &outputs)
{
	for (size_t i = 0; i < layers.size(); i++) {
		if (net_.layers[i].kind == layer_kind::maxpool)
			forward_maxpool(net_.layers[i], net_.batch, input_of(i), &layers[i]);
		layers[i].output = widened(outputs[i]);
	}
}

void host_network::backward()
{
	const int batch = net_.batch;

	for (size_t i = layers.size(); i-- > 0;) {
		const layer &l = net_.layers[i];
		layer_values &v = layers[i];
		reals *before = i ? &layers[i - 1].delta : nullptr;
		/* A bank makes updates even if no layer precedes it. */
		if (!before && l.banks.empty())
			continue;
		switch (l.kind) {
		case layer_kind::convolutional:
			unfinish_bank(l.banks[0], &v.banks[0], batch, l.spatial(), v.output, &v.delta);
			unmultiply(l, &v.banks[0], batch, input_of(i), v.delta, before);
			break;
		case layer_kind::connected:
			unfinish_bank(l.banks[0], &v.banks[0], batch, 1, v.output, &v.delta);
			unmultiply(flat(l.banks[0]), &v.banks[0], batch, input_of(i), v.delta, before);
			break;
		case layer_kind::maxpool:
			for (size_t k = 0; k < v.delta.size(); k++)
				(*before)[v.largest[k]] += v.delta[k];
			break;
		case layer_kind::avgpool:
			for (size_t k = 0; k < before->size(); k++)
				(*before)[k] += v.delta[k / (size_t(l.w) * l.h)] / (size_t(l.w) * l.h);
			break;
		case layer_kind::shortcut:
			for (size_t k = 0; k < v.delta.size(); k++) {
				v.delta[k] *= slope(l.act, v.output[k]);
				(*before)[k] += v.delta[k];
			}
			each_sample(l, net_.layers[l.from[0]], batch,
			            [&](size_t k, size_t from) { layers[l.from[0]].delta[from] += v.delta[k]; });
			break;
		case layer_kind::route: {
			size_t at = 0;
			for (int b = 0; b < batch; b++)
				for (int from : l.from) {
					const size_t size = net_.layers[from].outputs();
					for (size_t k = 0; k < size; k++)
						layers[from].delta[b * size + k] += v.delta[at++];
				}
			break;
		}
		case layer_kind::upsample:
			for (size_t k = 0; k < v.delta.size(); k++) {
				const size_t x = k % l.out_w, y = k / l.out_w % l.out_h, plane = k / l.spatial();
				(*before)[(plane * l.h + y / l.stride) * l.w + x / l.stride] += v.delta[k];
			}
			break;
		case layer_kind::softmax:
		case layer_kind::cost:
			for (size_t k = 0; k < v.delta.size(); k++)
				(*before)[k] += v.delta[k];
			break;
		case layer_kind::dropout:
			for (size_t k = 0; k < v.delta.size(); k++)
				(*before)[k] += v.random[k] < l.probability ? 0 : v.delta[k] * l.scale;
			break;
		case layer_kind::rnn:
		case layer_kind::reorg:
		case layer_kind::yolo:
		case layer_kind::region: break; /* require_trainable refuses them */
		}
	}
}

static void step(reals *values, reals *updates, double rate, double momentum)
{
	for (size_t k = 0; k < values->size(); k++) {
		(*values)[k] += rate * (*updates)[k];
		(*updates)[k] *= momentum;
	}
}

void host_network::update(double rate)
{
	const double images = double(net_.batch) * net_.subdivisions;

	for (layer_values &v : layers)
		for (bank_values &b : v.banks) {
			for (size_t k = 0; k < b.weights.size(); k++)
				b.weight_updates[k] -= net_.decay * images * b.weights[k];
			step(&b.weights, &b.weight_updates, rate / images, net_.momentum);
			step(&b.biases, &b.bias_updates, rate / images, net_.momentum);
			step(&b.scales, &b.scale_updates, rate / images, net_.momentum);
		}
}
