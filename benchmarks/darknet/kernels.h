/* kernels.h: the network's operations on the device except matrix products. Each launches
 * one of our kernels on the default stream, with blocks of 512 threads: one thread for
 * each value or window, or one block for each filter if it computes sums. No result
 * depends on the order in which threads run, because one thread computes each sum, or one
 * block in a fixed tree. Arrays are [batch][filter][spatial]. */
#ifndef DARKNET_KERNELS_H
#define DARKNET_KERNELS_H

#include "network.h"

void fill(size_t n, float value, float *x);
void copy(size_t n, const float *from, float *to);
void axpy(size_t n, float by, const float *x, float *y); /* y += by x */
void scale(size_t n, float by, float *x);

/* Copies the images of a layer into the images of a wider layer and back:
 * to[b][offset + i] = from[b][i], and from[b][i] += to[b][offset + i]. */
void insert(int batch, size_t size, const float *from, size_t offset, size_t stride, float *to);
void extract_add(int batch, size_t size, float *to, size_t offset, size_t stride, const float *from);

/* The images of a layer of another size, as a shortcut takes them: to[b][c][y][x] += from[b][c][stride y][stride x]
 * for the channels that both have, and back. l is the layer that `to` belongs to, other the layer of `from`. */
void add_sampled(const layer &l, const layer &other, int batch, const float *from, float *to);
void add_sampled_back(const layer &l, const layer &other, int batch, const float *delta, float *from_delta);

void activate(size_t n, activation act, float *x);
void slope(size_t n, activation act, const float *output, float *delta); /* delta *= slope */

/* Columns of the windows of one image and group: [channel, row, column of the
 * window][spatial]. col2im adds back. */
void im2col(const layer &l, const float *image, float *columns);
void col2im(const layer &l, const float *columns, float *image);

void add_bias(int batch, int filters, size_t spatial, const float *biases, float *x);
void scale_filters(int batch, int filters, size_t spatial, const float *scales, float *x);
void normalize(int batch, int filters, size_t spatial, const float *means, const float *variances, float *x);

void filter_means(int batch, int filters, size_t spatial, const float *x, float *means);
void filter_variances(int batch, int filters, size_t spatial, const float *x, const float *means, float *variances);
void bias_gradient(int batch, int filters, size_t spatial, const float *delta, float *updates);
void scale_gradient(int batch, int filters, size_t spatial, const float *normalized, const float *delta,
                    float *updates);
void mean_delta(int batch, int filters, size_t spatial, const float *delta, const float *variances, float *deltas);
void variance_delta(int batch, int filters, size_t spatial, const float *sums, const float *delta,
                    const float *means, const float *variances, float *deltas);
void normalize_delta(int batch, int filters, size_t spatial, const float *sums, const float *means,
                     const float *variances, const float *mean_deltas, const float *variance_deltas, float *delta);

void maxpool(const layer &l, int batch, const float *input, float *output, int *largest); /* largest may be null */
void maxpool_back(const layer &l, int batch, const int *largest, const float *delta, float *input_delta);
void avgpool(const layer &l, int batch, const float *input, float *output);
void avgpool_back(const layer &l, int batch, const float *delta, float *input_delta);
void upsample(const layer &l, int batch, const float *input, float *output);
void upsample_back(const layer &l, int batch, const float *delta, float *input_delta);
void softmax(const layer &l, int batch, const float *input, float *output);
void dropout(const layer &l, int batch, const float *random, const float *input, float *output);
void dropout_back(const layer &l, int batch, const float *random, const float *delta, float *input_delta);
/* Moves blocks of stride x stride values to channels, in Darknet's order: host_reference.cpp has the definition. */
void reorg(const layer &l, int batch, const float *input, float *output);
/* Makes chances of a head's values, except of the sizes of boxes: logistic, or softmax over the classes of a region. */
void head_chances(const layer &l, int batch, float *output);

/* Compute losses and delta of the last layer. */
void cross_entropy(size_t n, const float *truth, const float *output, float *losses, float *delta);
void squared_error(size_t n, float scale, const float *truth, const float *output, float *losses, float *delta);

#endif
