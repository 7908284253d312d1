/* verify.h: implements --verify. The host reference repeats each pass of the device, and
 * the largest difference of each layer is kept. */
#ifndef DARKNET_VERIFY_H
#define DARKNET_VERIFY_H

#include "device_network.h"
#include "host_reference.h"

#include <map>

class verification {
public:
	verification(const network &net, const model &start) : net_(net), host_(net, start) {}

	/* Call after device.predict(images). */
	void predicted(const device_network &device, const float *images);
	/* Call after device.train(images, truths) and after device.update(rate). */
	void trained(const device_network &device, const float *images, const float *truths, double loss);
	void updated(const device_network &device, double rate);

	/* report prints one line for each layer and compared array. It ends the program with
	 * EXIT_MISMATCH at the first error above the limit. Errors are relative to the largest
	 * value of the array. */
	void report() const;

private:
	void compare(size_t layer, const char *what, const std::vector<float> &got, const reals &want);

	const network &net_;
	host_network host_;
	std::map<std::pair<size_t, std::string>, double> worst_;
};

#endif
