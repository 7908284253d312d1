#include "verify.h"

#include "common/host.h"

#include <math.h>

#include <algorithm>

/* float32 sums of up to 10,000 products, through 78 layers, have errors of up to 1e-5. A
 * wrong index or a missing term gives a much larger error. */
static const double LIMIT = 1e-4;

void verification::compare(size_t layer, const char *what, const std::vector<float> &got, const reals &want)
{
	double largest = 1e-6;
	double &worst = worst_[{layer, what}];

	for (double value : want)
		largest = std::max(largest, fabs(value));
	for (size_t i = 0; i < want.size(); i++)
		keep_worst(&worst, fabs(got[i] - want[i]) / largest);
}

void verification::predicted(const device_network &device, const float *images)
{
	host_.forward(images, nullptr);
	for (size_t i = 0; i < net_.layers.size(); i++)
		compare(i, "output", device.output(i), host_.layers[i].output);
}

void verification::trained(const device_network &device, const float *images, const float *truths, double loss)
{
	for (size_t i = 0; i < net_.layers.size(); i++)
		if (device.arrays(i).random)
			host_.layers[i].random = device.values(device.arrays(i).random, host_.layers[i].output.size());
	host_.forward(images, truths);
	keep_worst(&worst_[{net_.layers.size() - 1, "loss"}], relative_error(loss, host_.loss(), 1e-6));
	std::vector<std::vector<float>> outputs;
	for (size_t i = 0; i < net_.layers.size(); i++) {
		outputs.push_back(device.output(i));
		compare(i, "output", outputs[i], host_.layers[i].output);
	}
	/* Outputs that agree may still lie on different sides of a jump of the gradient. */
	host_.adopt(outputs);
	host_.backward();
	for (size_t i = 0; i < net_.layers.size(); i++) {
		const reals &want = host_.layers[i].delta;
		compare(i, "delta", device.values(device.arrays(i).delta, want.size()), want);
	}
}

void verification::updated(const device_network &device, double rate)
{
	const auto against = [&](size_t layer, const char *what, const float *values, const reals &want) {
		if (!want.empty())
			compare(layer, what, device.values(values, want.size()), want);
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
		verify_report(name.c_str(), entry.second, LIMIT);
	}
}
