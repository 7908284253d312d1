#include "commands.h"

#include "boxes.h"
#include "device_arrays.h"
#include "predict.h"

/* Boxes of one class that overlap by more than this are one object. */
static const float NMS = .45f;

static std::vector<size_t> heads_of(const network &net)
{
	std::vector<size_t> heads;

	for (size_t i = 0; i < net.layers.size(); i++)
		if (net.layers[i].is_head())
			heads.push_back(i);
	if (heads.empty())
		die(EXIT_INPUT, "%s has no [yolo] or [region] layer, which detection needs", net.file.c_str());
	for (size_t i : heads)
		if (net.layers[i].classes != net.layers[heads[0]].classes)
			die(EXIT_INPUT, "%s: its [yolo] and [region] layers differ in classes", net.file.c_str());
	return heads;
}

/* Darknet's detect reads the names from this description. */
static std::string names_path()
{
	const char *path = "cfg/coco.data";
	std::vector<std::string> lines;

	return read_lines(path, &lines) ? read_data(path).text("names", "data/names.list") : "data/coco.names";
}

static uint64_t write_boxes(const std::string &name, const std::vector<box> &boxes,
                            const std::vector<std::string> &names, FILE *out, uint64_t sum)
{
	printf("%s: Predicted.\n", name.c_str());
	for (const box &b : boxes)
		for (size_t k = 0; k < b.chances.size(); k++) {
			if (!(b.chances[k] > 0))
				continue;
			const float result[] = {float(k), b.chances[k], b.x, b.y, b.w, b.h};
			sum = checksum(result, sizeof result, sum);
			printf("%s: %.0f%%\n", names[k].c_str(), b.chances[k] * 100);
			if (out)
				fprintf(out, "%s %zu %.9g %.9g %.9g %.9g %.9g\n", name.c_str(), k, b.chances[k], b.x, b.y, b.w,
				        b.h);
		}
	return sum;
}

int detect(const std::string &cfg, const std::string &weights, const std::string &image_name, const settings &s)
{
	const network net = read_network(cfg);
	const std::vector<size_t> heads = heads_of(net);
	if (s.common.footprint) {
		print_network_footprint(net, false);
		return EXIT_OK;
	}
	phase_clock phase(s.common.phases);
	phase.start("weights");
	image_batches images(net, image_name);
	const std::vector<std::string> labels = read_names(names_path(), net.layers[heads[0]].classes);
	const model start = load_model(net, weights, s.seed);
	FILE *out = s.common.out ? open_output(s.common.out) : nullptr;

	uint64_t sum = 0;
	predict_images(net, start, &images, heads, s, &phase, [&](const image_batch &batch, const asked_outputs &outputs) {
		for (size_t b = 0; b < batch.names.size(); b++) {
			std::vector<box> boxes;
			for (size_t h = 0; h < heads.size(); h++) {
				const size_t count = net.layers[heads[h]].outputs();
				const float *values = &outputs[h][b * count];
				decode_head(net, heads[h], values, batch.sizes[b].first, batch.sizes[b].second, float(s.threshold),
				            &boxes);
				sum = checksum(values, count * sizeof *values, sum);
			}
			suppress(&boxes, NMS);
			sum = write_boxes(batch.names[b], boxes, labels, out, sum);
		}
	});
	print_checksum(sum);
	if (out)
		close_output(out, s.common.out);
	phase.start("tear-down");
	phase.finish();
	return EXIT_OK;
}
