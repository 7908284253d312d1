#include "commands.h"

#include "predict.h"
#include "verify.h"

#include <algorithm>
#include <numeric>

/* The indices of the `most` largest values, the largest first. */
static std::vector<size_t> largest_of(const float *values, size_t count, size_t most)
{
	std::vector<size_t> order(count);

	std::iota(order.begin(), order.end(), 0);
	most = std::min(most, count);
	std::partial_sort(order.begin(), order.begin() + most, order.end(), [values](size_t a, size_t b) {
		return values[a] > values[b] || (values[a] == values[b] && a < b);
	});
	order.resize(most);
	return order;
}

static void write_best(const std::string &name, const float *chances, const std::vector<std::string> &labels,
                       size_t most)
{
	printf("%s: Predicted.\n", name.c_str());
	for (size_t i : largest_of(chances, labels.size(), most))
		printf("%5.2f%%: %s\n", chances[i] * 100, labels[i].c_str());
}

static size_t classes_of(const cfg_section &data, const network &net)
{
	const size_t classes = data.integer("classes", 2, 1, 1 << 16);

	if (classes != net.outputs())
		data.fail("classes", std::to_string(classes) + " classes, but " + net.file + " has " +
		                         std::to_string(net.outputs()) + " outputs");
	return classes;
}

int classifier_predict(const std::string &data_path, const std::string &cfg, const std::string &weights,
                       const std::string &image_name, const settings &s)
{
	const cfg_section data = read_data(data_path);
	const network net = read_network(cfg);
	const size_t classes = classes_of(data, net), top = data.integer("top", 1, 1, 1 << 16);
	if (s.common.footprint) {
		print_network_footprint(net, false);
		return EXIT_OK;
	}
	phase_clock phase(s.common.phases);
	phase.start("weights");
	image_batches images(net, image_name);
	const std::vector<std::string> labels = read_names(data.text("names", data.text("labels", "").c_str()), classes);
	const model start = load_model(net, weights, s.seed);
	FILE *out = s.common.out ? open_output(s.common.out) : nullptr;

	uint64_t sum = 0;
	predict_images(net, start, &images, {net.layers.size() - 1}, s, &phase,
	               [&](const image_batch &batch, const asked_outputs &outputs) {
		               for (size_t b = 0; b < batch.names.size(); b++) {
			               const float *chances = &outputs[0][b * classes];
			               write_best(batch.names[b], chances, labels, top);
			               for (size_t i = 0; out && i < classes; i++)
				               fprintf(out, "%.9g%c", chances[i], i + 1 < classes ? ' ' : '\n');
			               sum = checksum(chances, classes * sizeof *chances, sum);
		               }
	               });
	print_checksum(sum);
	if (out)
		close_output(out, s.common.out);
	phase.start("tear-down");
	phase.finish();
	return EXIT_OK;
}

namespace {

struct training_batch {
	std::vector<float> images, truths;
};

} // namespace

static training_batch make_batch(const training_set &set, const network &net, uint64_t pass)
{
	training_batch made;

	made.images.resize(net.batch * net.inputs());
	made.truths.resize(net.batch * net.outputs());
	set.batch(pass, made.images.data(), made.truths.data());
	return made;
}

static uint64_t model_checksum(const model &m)
{
	uint64_t sum = 0;

	for (const auto &layer : m.layers)
		for (const parameters &p : layer)
			for (const std::vector<float> *array : {&p.biases, &p.scales, &p.means, &p.variances, &p.weights})
				if (!array->empty())
					sum = checksum(array->data(), array->size() * sizeof(float), sum);
	return sum;
}

int classifier_train(const std::string &data_path, const std::string &cfg, const std::string &weights,
                     const settings &s)
{
	const cfg_section data = read_data(data_path);
	const network net = read_network(cfg);
	require_trainable(net);
	classes_of(data, net);
	if (s.common.footprint) {
		print_network_footprint(net, true);
		return EXIT_OK;
	}
	phase_clock phase(s.common.phases);
	phase.start("weights");
	const training_set set(data, net, s.seed);
	const model start = load_model(net, weights, s.seed);
	const uint64_t images_per_update = uint64_t(net.batch) * net.subdivisions;

	phase.start("copy in");
	device_network device(net, start, true, s.seed);
	std::unique_ptr<verification> verify(s.common.verify ? new verification(net, start) : nullptr);

	phase.start("train");
	share_clock waiting, working;
	uint64_t seen = start.seen, pass = seen / net.batch;
	double average = -1;
	/* The host makes the next batch while the device works, as Darknet does. */
	std::future<training_batch> next;
	const auto prepare = [&](uint64_t at) {
		next = std::async(std::launch::async, make_batch, std::cref(set), std::cref(net), at);
	};
	prepare(pass);
	for (uint64_t update = seen / images_per_update; long(update) < net.max_batches;) {
		double loss = 0;
		for (int i = 0; i < net.subdivisions; i++) {
			waiting.start();
			const training_batch batch = next.get();
			prepare(++pass);
			waiting.stop();
			working.start();
			const double part = device.train(batch.images.data(), batch.truths.data());
			working.stop();
			loss += part;
			if (verify)
				verify->trained(device, batch.images.data(), batch.truths.data(), part);
		}
		seen += images_per_update;
		update = seen / images_per_update;
		loss /= images_per_update;
		const double rate = rate_at(net, update);
		device.update(rate);
		if (verify)
			verify->updated(device, rate);
		average = average < 0 ? loss : average * .9 + loss * .1;
		printf("%llu, %.3f: %f, %f avg, %f rate, %llu images\n", (unsigned long long)update,
		       double(seen) / set.size(), loss, average, rate, (unsigned long long)seen);
	}
	if (s.common.phases) {
		waiting.print("images");
		working.print("device");
	}
	phase.start("copy out");
	model learned = device.learned();
	learned.seen = seen;
	if (s.common.out)
		save_model(net, learned, s.common.out);
	print_checksum(model_checksum(learned));
	if (verify)
		verify->report();
	phase.start("tear-down");
	phase.finish();
	return EXIT_OK;
}
