#include "verify.h"

#include "common/host.h"

#include <math.h>

#include <algorithm>
#include <functional>

/* Values: float32 sums of up to 10,000 products, through 78 layers, err by up to
 * 1e-5. Gradients jump where a leaky sum passes 0 and where two inputs of a
 * maximum are equal, and rounding decides on which side a value is: of so many
 * deltas one may differ, and what is made of deltas by more than values are. A
 * network of few values has no such luck; it is where an error shows best. */
static const double VALUE_LIMIT = 1e-4, GRADIENT_LIMIT = 2e-3;
static const size_t DELTAS_PER_JUMP = 100000;

void verification::compare(size_t layer, const char *what, const std::vector<float> &got, const reals &want,
                           double limit, size_t exempt)
{
	double largest = 1e-6;
	reals errors;

	for (double value : want)
		largest = std::max(largest, fabs(value));
	for (size_t i = 0; i < want.size(); i++) {
		errors.push_back(0);
		keep_worst(&errors.back(), fabs(got[i] - want[i]) / largest);
	}
	std::nth_element(errors.begin(), errors.begin() + exempt, errors.end(), std::greater<double>());
	difference &worst = worst_[{layer, what}];
	worst.limit = limit;
	keep_worst(&worst.error, errors[exempt]);
}

void verification::predicted(const device_network &device, const float *images)
{
	host_.forward(images, nullptr);
	for (size_t i = 0; i < net_.layers.size(); i++)
		compare(i, "output", device.output(i), host_.layers[i].output, VALUE_LIMIT, 0);
}

void verification::trained(const device_network &device, const float *images, const float *truths, double loss)
{
	for (size_t i = 0; i < net_.layers.size(); i++)
		if (device.arrays(i).random)
			host_.layers[i].random = device.values(device.arrays(i).random, host_.layers[i].output.size());
	host_.forward(images, truths);
	host_.backward();
	difference &worst_loss = worst_[{net_.layers.size() - 1, "loss"}];
	worst_loss.limit = VALUE_LIMIT;
	keep_worst(&worst_loss.error, relative_error(loss, host_.loss(), 1e-6));
	for (size_t i = 0; i < net_.layers.size(); i++) {
		const host_network::layer_values &want = host_.layers[i];
		compare(i, "output", device.output(i), want.output, VALUE_LIMIT, 0);
		compare(i, "delta", device.values(device.arrays(i).delta, want.delta.size()), want.delta,
		        GRADIENT_LIMIT, want.delta.size() / DELTAS_PER_JUMP);
	}
}

void verification::updated(const device_network &device, double rate)
{
	const auto against = [&](size_t layer, const char *what, const float *values, const reals &want) {
		if (!want.empty())
			compare(layer, what, device.values(values, want.size()), want, GRADIENT_LIMIT, 0);
	};

	host_.update(rate);
	for (size_t i = 0; i < net_.layers.size(); i++)
		for (size_t j = 0; j < net_.layers[i].banks.size(); j++) {
			const host_network::bank_values &want = host_.layers[i].banks[j];
			const bank_arrays &got = device.arrays(i).banks[j];
			against(i, "weights", got.weights, want.weights);
			against(i, "biases", got.biases, want.biases);
			against(i, "scales", got.scales, want.scales);
			against(i, "means", got.means, want.means);
			against(i, "variances", got.variances, want.variances);
			against(i, "weight updates", got.weight_updates, want.weight_updates);
			against(i, "bias updates", got.bias_updates, want.bias_updates);
			against(i, "scale updates", got.scale_updates, want.scale_updates);
		}
}

void verification::report() const
{
	for (const auto &entry : worst_) {
		const size_t layer = entry.first.first;
		const std::string name = "layer " + std::to_string(layer) + " " + kind_name(net_.layers[layer].kind) + " " +
		                         entry.first.second;
		verify_report(name.c_str(), entry.second.error, entry.second.limit);
	}
}
