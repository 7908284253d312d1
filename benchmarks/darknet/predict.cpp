#include "predict.h"

#include "verify.h"

void predict_images(const network &net, const model &start, image_batches *images, const std::vector<size_t> &layers,
                    const settings &s, phase_clock *phase,
                    const std::function<void(const image_batch &, const asked_outputs &)> &use)
{
	phase->start("copy in");
	device_network device(net, start, false, s.seed);
	std::unique_ptr<verification> verify(s.common.verify ? new verification(net, start) : nullptr);

	phase->start("predict");
	share_clock waiting, working;
	image_batch batch;
	asked_outputs outputs(layers.size());
	for (;;) {
		waiting.start();
		const bool more = images->next(&batch);
		waiting.stop();
		if (!more)
			break;
		working.start();
		device.predict(batch.values.data());
		for (size_t i = 0; i < layers.size(); i++)
			device.read_output(layers[i], &outputs[i]);
		working.stop();
		use(batch, outputs);
		if (verify)
			verify->predicted(device, batch.values.data());
	}
	if (s.common.phases) {
		waiting.print("images");
		working.print("device");
	}
	if (verify)
		verify->report();
}
