#include "weights.h"

#include "common/host.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

static parameters zero_parameters(const bank &b)
{
	parameters p;

	p.biases.resize(b.filters);
	p.weights.resize(b.weights());
	if (b.normalize) {
		p.scales.resize(b.filters);
		p.means.resize(b.filters);
		p.variances.resize(b.filters);
	}
	return p;
}

static model zero_model(const network &net)
{
	model zero = {};

	for (const layer &l : net.layers) {
		zero.layers.emplace_back();
		for (const bank &b : l.banks)
			zero.layers.back().push_back(zero_parameters(b));
	}
	return zero;
}

static void fill_uniform(std::vector<float> *values, double low, double high, uint64_t seed)
{
	const float base = low, step = (high - low) / (1 << 24);
	const size_t count = values->size();

	/* Two numbers of 24 bits from each hash. */
	for (size_t i = 0; i < count; i += 2) {
		const uint64_t bits = hash64(seed + i);
		(*values)[i] = base + step * float(int32_t(bits & 0xffffff));
		if (i + 1 < count)
			(*values)[i + 1] = base + step * float(int32_t(bits >> 40));
	}
}

static bool next_is(const network &net, size_t i, layer_kind kind)
{
	return i + 1 < net.layers.size() && net.layers[i + 1].kind == kind;
}

/* A detector has thousands of boxes, and few of them show an object. The sums of deep networks are large here, so the
 * weights of an object's chance are small. */
static void expect_no_object(const layer &head, const bank &b, parameters *p)
{
	for (size_t n = 0; n < head.mask.size(); n++) {
		const size_t object = n * (head.classes + 5) + 4;
		p->biases[object] = -2.5f;
		for (int i = 0; i < b.inputs; i++)
			p->weights[object * b.inputs + i] /= 16;
	}
}

model seeded_model(const network &net, uint64_t seed)
{
	model made = zero_model(net);

	for (size_t i = 0; i < net.layers.size(); i++) {
		const layer &l = net.layers[i];
		for (size_t j = 0; j < l.banks.size(); j++) {
			parameters &p = made.layers[i][j];
			const uint64_t base = hash64(hash64(seed) + 8 * i + j) & ~uint64_t(0) << 32;
			const double limit = sqrt(6.0 / l.banks[j].inputs);
			/* A sum of many layers' outputs grows unless each layer adds little. */
			const double variance = next_is(net, i, layer_kind::shortcut) ? 16 : 1;
			fill_uniform(&p.weights, -limit, limit, base);
			fill_uniform(&p.biases, -.1, .1, base + 0x90000000u);
			fill_uniform(&p.scales, .9, 1.1, base + 0xa0000000u);
			fill_uniform(&p.means, -.1, .1, base + 0xb0000000u);
			fill_uniform(&p.variances, .75 * variance, 1.25 * variance, base + 0xc0000000u);
			if (i + 1 < net.layers.size() && net.layers[i + 1].is_head())
				expect_no_object(net.layers[i + 1], l.banks[j], &p);
		}
	}
	return made;
}

/* each_array calls use(array) for each array that is not empty, in the order of the file. */
template <typename F> static void each_array(const network &net, model *m, F use)
{
	const auto visit = [&](std::vector<float> &array) {
		if (!array.empty())
			use(array);
	};

	for (size_t i = 0; i < net.layers.size(); i++) {
		const bool connected = net.layers[i].kind != layer_kind::convolutional;
		for (parameters &p : m->layers[i]) {
			visit(p.biases);
			if (connected)
				visit(p.weights);
			visit(p.scales);
			visit(p.means);
			visit(p.variances);
			if (!connected)
				visit(p.weights);
		}
	}
}

uint64_t weights_bytes(const network &net)
{
	uint64_t bytes = 0;

	for (const layer &l : net.layers)
		for (const bank &b : l.banks)
			bytes += (b.weights() + uint64_t(b.filters) * (b.normalize ? 4 : 1)) * sizeof(float);
	return bytes;
}

static void read_exactly(FILE *file, const std::string &path, void *to, size_t bytes)
{
	if (fread(to, 1, bytes, file) != bytes)
		die(EXIT_INPUT, "read %s: %s", path.c_str(), ferror(file) ? strerror(errno) : "file ends too early");
}

/* Three 32-bit integers (major, minor and revision), then the number of images seen: 64
 * bits since version 0.2, 32 bits before. */
enum { VERSION_BYTES = 12 };

static bool long_seen(const int32_t version[3])
{
	return version[0] > 0 || version[1] >= 2;
}

model load_model(const network &net, const std::string &path, uint64_t seed)
{
	struct stat info;
	int32_t version[3];

	if (path.empty())
		return seeded_model(net, seed);
	if (stat(path.c_str(), &info)) {
		if (errno != ENOENT)
			die(EXIT_INPUT, "%s: %s", path.c_str(), strerror(errno));
		fprintf(stderr, "%s: %s: no such file: the weights are made from seed %llu\n",
		        program_invocation_short_name, path.c_str(), (unsigned long long)seed);
		return seeded_model(net, seed);
	}
	if (!S_ISREG(info.st_mode))
		die(EXIT_INPUT, "%s is not a regular file", path.c_str());
	FILE *file = fopen(path.c_str(), "rb");
	if (!file)
		die(EXIT_INPUT, "open %s: %s", path.c_str(), strerror(errno));
	if (info.st_size < VERSION_BYTES)
		die(EXIT_INPUT, "%s has %lld bytes, too few for the header of a .weights file", path.c_str(),
		    (long long)info.st_size);
	read_exactly(file, path, version, sizeof version);
	if (version[0] < 0 || version[0] >= 1000 || version[1] < 0 || version[1] >= 1000)
		die(EXIT_INPUT, "%s is not a .weights file: its version is %d.%d", path.c_str(), version[0], version[1]);
	const size_t seen_bytes = long_seen(version) ? 8 : 4;
	const uint64_t want = VERSION_BYTES + seen_bytes + weights_bytes(net);
	if (uint64_t(info.st_size) != want)
		die(EXIT_INPUT, "%s has %lld bytes, want %llu for %s and a header of version %d.%d", path.c_str(),
		    (long long)info.st_size, (unsigned long long)want, net.file.c_str(), version[0], version[1]);
	model loaded = zero_model(net);
	read_exactly(file, path, &loaded.seen, seen_bytes);
	each_array(net, &loaded, [&](std::vector<float> &array) {
		read_exactly(file, path, array.data(), array.size() * sizeof(float));
	});
	fclose(file);
	return loaded;
}

void save_model(const network &net, const model &trained, const std::string &path)
{
	const int32_t version[3] = {0, 2, 0};
	model copy = trained;
	FILE *file = open_output(path.c_str());

	fwrite(version, sizeof version, 1, file);
	fwrite(&trained.seen, sizeof trained.seen, 1, file);
	each_array(net, &copy, [&](std::vector<float> &array) {
		fwrite(array.data(), sizeof(float), array.size(), file);
	});
	close_output(file, path.c_str());
}
