#include "kernels.h"

#include "common/suite.h"
#include "device_arrays.h"

/* Added to a variance before its root is taken. */
static const float EPSILON = .00001f;

static dim3 grid(size_t n)
{
	const grid_size size = grid_of(n);

	return dim3(size.x, size.y);
}

/* Indices of values are 32 bits wide, because read_network refuses networks with arrays of
 * more than 2^31 values. */
static __device__ unsigned thread_index()
{
	return (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void fill_kernel(unsigned n, float value, float *x)
{
	const unsigned i = thread_index();

	if (i < n)
		x[i] = value;
}

void fill(size_t n, float value, float *x)
{
	fill_kernel<<<grid(n), BLOCK>>>(n, value, x);
	GPU_LAUNCHED("fill");
}

__global__ void copy_kernel(unsigned n, const float *from, float *to)
{
	const unsigned i = thread_index();

	if (i < n)
		to[i] = from[i];
}

void copy(size_t n, const float *from, float *to)
{
	copy_kernel<<<grid(n), BLOCK>>>(n, from, to);
	GPU_LAUNCHED("copy");
}

__global__ void axpy_kernel(unsigned n, float by, const float *x, float *y)
{
	const unsigned i = thread_index();

	if (i < n)
		y[i] += by * x[i];
}

void axpy(size_t n, float by, const float *x, float *y)
{
	axpy_kernel<<<grid(n), BLOCK>>>(n, by, x, y);
	GPU_LAUNCHED("axpy");
}

__global__ void scale_kernel(unsigned n, float by, float *x)
{
	const unsigned i = thread_index();

	if (i < n)
		x[i] *= by;
}

void scale(size_t n, float by, float *x)
{
	scale_kernel<<<grid(n), BLOCK>>>(n, by, x);
	GPU_LAUNCHED("scale");
}

__global__ void insert_kernel(unsigned n, unsigned size, const float *from, unsigned offset, unsigned stride, float *to)
{
	const unsigned i = thread_index();

	if (i < n)
		to[i / size * stride + offset + i % size] = from[i];
}

void insert(int batch, size_t size, const float *from, size_t offset, size_t stride, float *to)
{
	insert_kernel<<<grid(batch * size), BLOCK>>>(batch * size, size, from, offset, stride, to);
	GPU_LAUNCHED("insert");
}

__global__ void extract_add_kernel(unsigned n, unsigned size, float *to, unsigned offset, unsigned stride,
                                   const float *from)
{
	const unsigned i = thread_index();

	if (i < n)
		to[i] += from[i / size * stride + offset + i % size];
}

void extract_add(int batch, size_t size, float *to, size_t offset, size_t stride, const float *from)
{
	extract_add_kernel<<<grid(batch * size), BLOCK>>>(batch * size, size, to, offset, stride, from);
	GPU_LAUNCHED("extract_add");
}

/* The value of `from` that value i of `to` takes; false if `from` lacks its channel. */
static __device__ bool sampled_at(unsigned i, int w, int h, int c, int stride, int from_c, unsigned *at)
{
	const unsigned x = i % w * stride, y = i / w % h * stride, channel = i / (unsigned(w) * h) % c;
	const unsigned image = i / (unsigned(w) * h) / c;

	*at = ((image * from_c + channel) * (h * stride) + y) * (w * stride) + x;
	return channel < unsigned(from_c);
}

__global__ void add_sampled_kernel(unsigned n, int w, int h, int c, int stride, int from_c, const float *from,
                                   float *to)
{
	const unsigned i = thread_index();
	unsigned at;

	if (i < n && sampled_at(i, w, h, c, stride, from_c, &at))
		to[i] += from[at];
}

void add_sampled(const layer &l, const layer &other, int batch, const float *from, float *to)
{
	const size_t n = batch * l.outputs();

	add_sampled_kernel<<<grid(n), BLOCK>>>(n, l.out_w, l.out_h, l.out_c, l.stride, other.out_c, from, to);
	GPU_LAUNCHED("add_sampled");
}

__global__ void add_sampled_back_kernel(unsigned n, int w, int h, int c, int stride, int from_c, const float *delta,
                                        float *from_delta)
{
	const unsigned i = thread_index();
	unsigned at;

	if (i < n && sampled_at(i, w, h, c, stride, from_c, &at))
		from_delta[at] += delta[i];
}

void add_sampled_back(const layer &l, const layer &other, int batch, const float *delta, float *from_delta)
{
	const size_t n = batch * l.outputs();

	add_sampled_back_kernel<<<grid(n), BLOCK>>>(n, l.out_w, l.out_h, l.out_c, l.stride, other.out_c, delta, from_delta);
	GPU_LAUNCHED("add_sampled_back");
}

static __device__ float activated(activation act, float x)
{
	switch (act) {
	case activation::leaky: return x > 0 ? x : .1f * x;
	case activation::logistic: return 1 / (1 + expf(-x));
	case activation::relu: return x > 0 ? x : 0;
	case activation::tanh: return tanhf(x);
	default: return x;
	}
}

__global__ void activate_kernel(unsigned n, activation act, float *x)
{
	const unsigned i = thread_index();

	if (i < n)
		x[i] = activated(act, x[i]);
}

void activate(size_t n, activation act, float *x)
{
	activate_kernel<<<grid(n), BLOCK>>>(n, act, x);
	GPU_LAUNCHED("activate");
}

__global__ void slope_kernel(unsigned n, activation act, const float *output, float *delta)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const float y = output[i];
	switch (act) {
	case activation::leaky: delta[i] *= y > 0 ? 1 : .1f; break;
	case activation::logistic: delta[i] *= y * (1 - y); break;
	case activation::relu: delta[i] *= y > 0 ? 1 : 0; break;
	case activation::tanh: delta[i] *= 1 - y * y; break;
	default: break;
	}
}

void slope(size_t n, activation act, const float *output, float *delta)
{
	slope_kernel<<<grid(n), BLOCK>>>(n, act, output, delta);
	GPU_LAUNCHED("slope");
}

/* One thread for each window and channel: it writes the window's column. */
__global__ void im2col_kernel(unsigned n, const float *image, int h, int w, int size, int stride, int pad, int out_h,
                              int out_w, float *columns)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const unsigned spatial = unsigned(out_h) * out_w;
	const int x0 = int(i % out_w) * stride - pad, y0 = int(i / out_w % out_h) * stride - pad;
	const unsigned channel = i / spatial;
	const float *plane = image + channel * h * w;
	float *column = columns + channel * size * size * spatial + i % spatial;
	for (int dy = 0; dy < size; dy++)
		for (int dx = 0; dx < size; dx++, column += spatial) {
			const int x = x0 + dx, y = y0 + dy;
			*column = x >= 0 && x < w && y >= 0 && y < h ? plane[unsigned(y) * w + x] : 0;
		}
}

void im2col(const layer &l, const float *image, float *columns)
{
	const size_t n = l.c / l.groups * l.spatial();

	im2col_kernel<<<grid(n), BLOCK>>>(n, image, l.h, l.w, l.size, l.stride, l.pad, l.out_h, l.out_w, columns);
	GPU_LAUNCHED("im2col");
}

/* One thread for each value of the image: it adds up the windows that see it. */
__global__ void col2im_kernel(unsigned n, const float *columns, int h, int w, int size, int stride, int pad, int out_h,
                              int out_w, float *image)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int x = int(i % w) + pad, y = int(i / w % h) + pad;
	const unsigned channel = i / (unsigned(w) * h), spatial = unsigned(out_h) * out_w;
	float sum = 0;
	for (int dy = 0; dy < size; dy++) {
		const int out_y = (y - dy) / stride;
		if (y < dy || (y - dy) % stride || out_y >= out_h)
			continue;
		for (int dx = 0; dx < size; dx++) {
			const int out_x = (x - dx) / stride;
			if (x < dx || (x - dx) % stride || out_x >= out_w)
				continue;
			sum += columns[((channel * size + dy) * size + dx) * spatial + unsigned(out_y) * out_w + out_x];
		}
	}
	image[i] += sum;
}

void col2im(const layer &l, const float *columns, float *image)
{
	const size_t n = size_t(l.c / l.groups) * l.h * l.w;

	col2im_kernel<<<grid(n), BLOCK>>>(n, columns, l.h, l.w, l.size, l.stride, l.pad, l.out_h, l.out_w, image);
	GPU_LAUNCHED("col2im");
}

__global__ void add_bias_kernel(unsigned n, int filters, unsigned spatial, const float *biases, float *x)
{
	const unsigned i = thread_index();

	if (i < n)
		x[i] += biases[i / spatial % filters];
}

void add_bias(int batch, int filters, size_t spatial, const float *biases, float *x)
{
	const size_t n = batch * filters * spatial;

	add_bias_kernel<<<grid(n), BLOCK>>>(n, filters, spatial, biases, x);
	GPU_LAUNCHED("add_bias");
}

__global__ void scale_filters_kernel(unsigned n, int filters, unsigned spatial, const float *scales, float *x)
{
	const unsigned i = thread_index();

	if (i < n)
		x[i] *= scales[i / spatial % filters];
}

void scale_filters(int batch, int filters, size_t spatial, const float *scales, float *x)
{
	const size_t n = batch * filters * spatial;

	scale_filters_kernel<<<grid(n), BLOCK>>>(n, filters, spatial, scales, x);
	GPU_LAUNCHED("scale_filters");
}

__global__ void normalize_kernel(unsigned n, int filters, unsigned spatial, const float *means, const float *variances,
                                 float *x)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int f = i / spatial % filters;
	x[i] = (x[i] - means[f]) / sqrtf(variances[f] + EPSILON);
}

void normalize(int batch, int filters, size_t spatial, const float *means, const float *variances, float *x)
{
	const size_t n = batch * filters * spatial;

	normalize_kernel<<<grid(n), BLOCK>>>(n, filters, spatial, means, variances, x);
	GPU_LAUNCHED("normalize");
}

/* sum_over_block adds one value of each thread, in a fixed tree; thread 0 has
 * the sum. */
static __device__ float sum_over_block(float value)
{
	__shared__ float part[BLOCK];

	part[threadIdx.x] = value;
	__syncthreads();
	for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
		__syncthreads();
	}
	return part[0];
}

/* sum_of_filter adds term(index) over the values of filter blockIdx.x. */
template <typename F> static __device__ float sum_of_filter(int batch, int filters, unsigned spatial, F term)
{
	float sum = 0;

	for (int b = 0; b < batch; b++)
		for (unsigned i = threadIdx.x; i < spatial; i += BLOCK)
			sum += term((unsigned(b) * filters + blockIdx.x) * spatial + i);
	return sum_over_block(sum);
}

__global__ void filter_means_kernel(int batch, int filters, unsigned spatial, const float *x, float *means)
{
	const float sum = sum_of_filter(batch, filters, spatial, [=](unsigned i) { return x[i]; });

	if (threadIdx.x == 0)
		means[blockIdx.x] = sum / (batch * spatial);
}

void filter_means(int batch, int filters, size_t spatial, const float *x, float *means)
{
	filter_means_kernel<<<filters, BLOCK>>>(batch, filters, spatial, x, means);
	GPU_LAUNCHED("filter_means");
}

__global__ void filter_variances_kernel(int batch, int filters, unsigned spatial, const float *x, const float *means,
                                        float *variances)
{
	const float mean = means[blockIdx.x];
	const float sum = sum_of_filter(batch, filters, spatial,
	                                [=](unsigned i) { return (x[i] - mean) * (x[i] - mean); });

	if (threadIdx.x == 0)
		variances[blockIdx.x] = sum / (batch * spatial);
}

void filter_variances(int batch, int filters, size_t spatial, const float *x, const float *means, float *variances)
{
	filter_variances_kernel<<<filters, BLOCK>>>(batch, filters, spatial, x, means, variances);
	GPU_LAUNCHED("filter_variances");
}

__global__ void bias_gradient_kernel(int batch, int filters, unsigned spatial, const float *delta, float *updates)
{
	const float sum = sum_of_filter(batch, filters, spatial, [=](unsigned i) { return delta[i]; });

	if (threadIdx.x == 0)
		updates[blockIdx.x] += sum;
}

void bias_gradient(int batch, int filters, size_t spatial, const float *delta, float *updates)
{
	bias_gradient_kernel<<<filters, BLOCK>>>(batch, filters, spatial, delta, updates);
	GPU_LAUNCHED("bias_gradient");
}

__global__ void scale_gradient_kernel(int batch, int filters, unsigned spatial, const float *normalized,
                                      const float *delta, float *updates)
{
	const float sum = sum_of_filter(batch, filters, spatial, [=](unsigned i) { return delta[i] * normalized[i]; });

	if (threadIdx.x == 0)
		updates[blockIdx.x] += sum;
}

void scale_gradient(int batch, int filters, size_t spatial, const float *normalized, const float *delta,
                    float *updates)
{
	scale_gradient_kernel<<<filters, BLOCK>>>(batch, filters, spatial, normalized, delta, updates);
	GPU_LAUNCHED("scale_gradient");
}

__global__ void mean_delta_kernel(int batch, int filters, unsigned spatial, const float *delta,
                                  const float *variances, float *deltas)
{
	const float sum = sum_of_filter(batch, filters, spatial, [=](unsigned i) { return delta[i]; });

	if (threadIdx.x == 0)
		deltas[blockIdx.x] = -sum / sqrtf(variances[blockIdx.x] + EPSILON);
}

void mean_delta(int batch, int filters, size_t spatial, const float *delta, const float *variances, float *deltas)
{
	mean_delta_kernel<<<filters, BLOCK>>>(batch, filters, spatial, delta, variances, deltas);
	GPU_LAUNCHED("mean_delta");
}

__global__ void variance_delta_kernel(int batch, int filters, unsigned spatial, const float *sums,
                                      const float *delta, const float *means, const float *variances,
                                      float *deltas)
{
	const float mean = means[blockIdx.x];
	const float sum = sum_of_filter(batch, filters, spatial, [=](unsigned i) { return delta[i] * (sums[i] - mean); });

	if (threadIdx.x == 0) {
		const float variance = variances[blockIdx.x] + EPSILON;
		deltas[blockIdx.x] = -.5f * sum / (variance * sqrtf(variance));
	}
}

void variance_delta(int batch, int filters, size_t spatial, const float *sums, const float *delta,
                    const float *means, const float *variances, float *deltas)
{
	variance_delta_kernel<<<filters, BLOCK>>>(batch, filters, spatial, sums, delta, means, variances, deltas);
	GPU_LAUNCHED("variance_delta");
}

__global__ void normalize_delta_kernel(unsigned n, int batch, int filters, unsigned spatial, const float *sums,
                                       const float *means, const float *variances, const float *mean_deltas,
                                       const float *variance_deltas, float *delta)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int f = i / spatial % filters;
	const float count = batch * spatial;
	delta[i] = delta[i] / sqrtf(variances[f] + EPSILON) + variance_deltas[f] * 2 * (sums[i] - means[f]) / count +
	           mean_deltas[f] / count;
}

void normalize_delta(int batch, int filters, size_t spatial, const float *sums, const float *means,
                     const float *variances, const float *mean_deltas, const float *variance_deltas, float *delta)
{
	const size_t n = batch * filters * spatial;

	normalize_delta_kernel<<<grid(n), BLOCK>>>(n, batch, filters, spatial, sums, means, variances, mean_deltas,
	                                           variance_deltas, delta);
	GPU_LAUNCHED("normalize_delta");
}

__global__ void maxpool_kernel(unsigned n, int h, int w, int size, int stride, int pad, int out_h, int out_w,
                               const float *input, float *output, int *largest)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int x0 = int(i % out_w) * stride - pad / 2, y0 = int(i / out_w % out_h) * stride - pad / 2;
	const unsigned plane = i / (unsigned(out_w) * out_h) * h * w;
	float best = -INFINITY;
	unsigned best_at = plane;
	for (int y = max(y0, 0); y < min(y0 + size, h); y++)
		for (int x = max(x0, 0); x < min(x0 + size, w); x++) {
			const unsigned at = plane + unsigned(y) * w + x;
			if (input[at] > best) {
				best = input[at];
				best_at = at;
			}
		}
	output[i] = best;
	if (largest)
		largest[i] = int(best_at);
}

void maxpool(const layer &l, int batch, const float *input, float *output, int *largest)
{
	const size_t n = batch * l.outputs();

	maxpool_kernel<<<grid(n), BLOCK>>>(n, l.h, l.w, l.size, l.stride, l.pad, l.out_h, l.out_w, input, output,
	                                   largest);
	GPU_LAUNCHED("maxpool");
}

/* One thread for each input: it looks at the windows that see it. */
__global__ void maxpool_back_kernel(unsigned n, int h, int w, int size, int stride, int pad, int out_h, int out_w,
                                    const int *largest, const float *delta, float *input_delta)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int x = int(i % w) + pad / 2, y = int(i / w % h) + pad / 2;
	const unsigned plane = i / (unsigned(w) * h) * out_h * out_w;
	float sum = 0;
	for (int out_y = max(0, (y - size + stride) / stride); out_y < out_h && out_y * stride <= y; out_y++)
		for (int out_x = max(0, (x - size + stride) / stride); out_x < out_w && out_x * stride <= x; out_x++) {
			const unsigned out = plane + unsigned(out_y) * out_w + out_x;
			if (unsigned(largest[out]) == i)
				sum += delta[out];
		}
	input_delta[i] += sum;
}

void maxpool_back(const layer &l, int batch, const int *largest, const float *delta, float *input_delta)
{
	const size_t n = batch * l.inputs();

	maxpool_back_kernel<<<grid(n), BLOCK>>>(n, l.h, l.w, l.size, l.stride, l.pad, l.out_h, l.out_w, largest, delta,
	                                        input_delta);
	GPU_LAUNCHED("maxpool_back");
}

__global__ void avgpool_kernel(unsigned n, unsigned plane, const float *input, float *output)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	float sum = 0;
	for (unsigned k = 0; k < plane; k++)
		sum += input[i * plane + k];
	output[i] = sum / plane;
}

void avgpool(const layer &l, int batch, const float *input, float *output)
{
	const size_t n = batch * l.outputs();

	avgpool_kernel<<<grid(n), BLOCK>>>(n, size_t(l.w) * l.h, input, output);
	GPU_LAUNCHED("avgpool");
}

__global__ void avgpool_back_kernel(unsigned n, unsigned plane, const float *delta, float *input_delta)
{
	const unsigned i = thread_index();

	if (i < n)
		input_delta[i] += delta[i / plane] / plane;
}

void avgpool_back(const layer &l, int batch, const float *delta, float *input_delta)
{
	const size_t n = batch * l.inputs();

	avgpool_back_kernel<<<grid(n), BLOCK>>>(n, size_t(l.w) * l.h, delta, input_delta);
	GPU_LAUNCHED("avgpool_back");
}

__global__ void upsample_kernel(unsigned n, int out_w, int out_h, int stride, const float *input, float *output)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int x = i % out_w / stride, y = i / out_w % out_h / stride;
	const unsigned plane = i / (unsigned(out_w) * out_h);
	output[i] = input[(plane * (out_h / stride) + y) * (out_w / stride) + x];
}

void upsample(const layer &l, int batch, const float *input, float *output)
{
	const size_t n = batch * l.outputs();

	upsample_kernel<<<grid(n), BLOCK>>>(n, l.out_w, l.out_h, l.stride, input, output);
	GPU_LAUNCHED("upsample");
}

__global__ void upsample_back_kernel(unsigned n, int w, int h, int stride, const float *delta, float *input_delta)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const unsigned plane = i / (unsigned(w) * h);
	float sum = 0;
	for (int dy = 0; dy < stride; dy++)
		for (int dx = 0; dx < stride; dx++)
			sum += delta[(plane * h * stride + i / w % h * stride + dy) * (w * stride) + i % w * stride + dx];
	input_delta[i] += sum;
}

void upsample_back(const layer &l, int batch, const float *delta, float *input_delta)
{
	const size_t n = batch * l.inputs();

	upsample_back_kernel<<<grid(n), BLOCK>>>(n, l.w, l.h, l.stride, delta, input_delta);
	GPU_LAUNCHED("upsample_back");
}

/* One thread for each group of `size` values. `together` groups lie beside each other: their values are `together`
 * apart, and the next of them begin `stride` values later. */
__global__ void softmax_kernel(unsigned n, unsigned size, unsigned together, unsigned stride, float temperature,
                               const float *input, float *output)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const unsigned first = i / together * stride + i % together, end = first + size * together;
	float largest = -INFINITY, sum = 0;
	for (unsigned k = first; k < end; k += together)
		largest = fmaxf(largest, input[k]);
	for (unsigned k = first; k < end; k += together) {
		output[k] = expf((input[k] - largest) / temperature);
		sum += output[k];
	}
	for (unsigned k = first; k < end; k += together)
		output[k] /= sum;
}

void softmax(const layer &l, int batch, const float *input, float *output)
{
	const size_t n = size_t(batch) * l.groups, size = l.inputs() / l.groups;

	softmax_kernel<<<grid(n), BLOCK>>>(n, size, 1, size, l.temperature, input, output);
	GPU_LAUNCHED("softmax");
}

__global__ void dropout_kernel(unsigned n, float probability, float scale, const float *random, const float *input,
                               float *output)
{
	const unsigned i = thread_index();

	if (i < n)
		output[i] = random[i] < probability ? 0 : input[i] * scale;
}

void dropout(const layer &l, int batch, const float *random, const float *input, float *output)
{
	const size_t n = batch * l.outputs();

	dropout_kernel<<<grid(n), BLOCK>>>(n, l.probability, l.scale, random, input, output);
	GPU_LAUNCHED("dropout");
}

__global__ void dropout_back_kernel(unsigned n, float probability, float scale, const float *random,
                                    const float *delta, float *input_delta)
{
	const unsigned i = thread_index();

	if (i < n)
		input_delta[i] += random[i] < probability ? 0 : delta[i] * scale;
}

void dropout_back(const layer &l, int batch, const float *random, const float *delta, float *input_delta)
{
	const size_t n = batch * l.outputs();

	dropout_back_kernel<<<grid(n), BLOCK>>>(n, l.probability, l.scale, random, delta, input_delta);
	GPU_LAUNCHED("dropout_back");
}

__global__ void reorg_kernel(unsigned n, int w, int h, int c, int stride, const float *input, float *output)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	/* Value i, counted as in [c][h][w], is in the input counted as in [c / stride^2][stride h][stride w]. */
	const unsigned x = i % w, y = i / w % h, channel = i / (unsigned(w) * h) % c, image = i / (unsigned(w) * h) / c;
	const unsigned channels = c / (stride * stride), part = channel / channels;
	const unsigned from_x = x * stride + part % stride, from_y = y * stride + part / stride;
	output[i] = input[((image * channels + channel % channels) * (h * stride) + from_y) * (w * stride) + from_x];
}

void reorg(const layer &l, int batch, const float *input, float *output)
{
	const size_t n = batch * l.outputs();

	reorg_kernel<<<grid(n), BLOCK>>>(n, l.w, l.h, l.c, l.stride, input, output);
	GPU_LAUNCHED("reorg");
}

__global__ void head_logistic_kernel(unsigned n, unsigned plane, int entries, int logistic_entries, float *output)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const int entry = i / plane % entries;
	if (entry != 2 && entry != 3 && entry < logistic_entries)
		output[i] = activated(activation::logistic, output[i]);
}

void head_chances(const layer &l, int batch, float *output)
{
	const size_t n = batch * l.outputs(), plane = l.spatial();
	const int entries = l.classes + 5;
	const bool logistic = l.kind == layer_kind::yolo;

	head_logistic_kernel<<<grid(n), BLOCK>>>(n, plane, entries, logistic ? entries : 5, output);
	GPU_LAUNCHED("head_logistic");
	if (logistic)
		return;
	const size_t cells = batch * l.mask.size() * plane;
	softmax_kernel<<<grid(cells), BLOCK>>>(cells, l.classes, plane, entries * plane, 1, output + 5 * plane,
	                                       output + 5 * plane);
	GPU_LAUNCHED("softmax");
}

__global__ void cross_entropy_kernel(unsigned n, const float *truth, const float *output, float *losses, float *delta)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	losses[i] = truth[i] != 0 ? -logf(output[i]) : 0;
	delta[i] = truth[i] - output[i];
}

void cross_entropy(size_t n, const float *truth, const float *output, float *losses, float *delta)
{
	cross_entropy_kernel<<<grid(n), BLOCK>>>(n, truth, output, losses, delta);
	GPU_LAUNCHED("cross_entropy");
}

__global__ void squared_error_kernel(unsigned n, float scale, const float *truth, const float *output, float *losses,
                                     float *delta)
{
	const unsigned i = thread_index();

	if (i >= n)
		return;
	const float error = truth[i] - output[i];
	losses[i] = error * error;
	delta[i] = scale * error;
}

void squared_error(size_t n, float scale, const float *truth, const float *output, float *losses, float *delta)
{
	squared_error_kernel<<<grid(n), BLOCK>>>(n, scale, truth, output, losses, delta);
	GPU_LAUNCHED("squared_error");
}
