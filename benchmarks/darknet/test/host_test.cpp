/* host_test: tests everything that does not need CUDA: the readers, shapes and footprints,
 * images and boxes. It also compares the host reference with values computed by hand and
 * with numeric gradients. */
#include "boxes.h"
#include "common/host.h"
#include "device_arrays.h"
#include "host_reference.h"
#include "input.h"
#include "random.h"

#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

static int failures;
static std::string directory; /* for the files of a test */

static void check(bool ok, const char *what, int line)
{
	if (ok)
		return;
	printf("host_test.cpp:%d: %s\n", line, what);
	failures++;
}
#define CHECK(condition) check((condition), #condition, __LINE__)

static void check_near(double got, double want, double limit, const char *what, int line)
{
	if (fabs(got - want) <= limit)
		return;
	printf("host_test.cpp:%d: %s is %.9g, want %.9g\n", line, what, got, want);
	failures++;
}
#define NEAR(got, want, limit) check_near((got), (want), (limit), #got, __LINE__)

static std::string file(const std::string &name, const std::string &content)
{
	const std::string path = directory + "/" + name;
	FILE *out = fopen(path.c_str(), "wb");

	fwrite(content.data(), 1, content.size(), out);
	fclose(out);
	return path;
}

/* message_of runs `act` in a child and returns what the child wrote to stderr; "" if its
 * exit status was not EXIT_INPUT. */
template <typename F> static std::string message_of(F act)
{
	int ends[2], status;
	char text[4096];
	std::string message;

	fflush(stdout);
	if (pipe(ends))
		abort();
	const pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], 2);
		try {
			act();
		} catch (const std::runtime_error &error) {
			die(EXIT_INPUT, "%s", error.what());
		}
		_exit(EXIT_OK);
	}
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], text, sizeof text)) > 0;)
		message.append(text, n);
	close(ends[0]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_INPUT ? message : "";
}

template <typename F> static void check_refused(const char *want, int line, F act)
{
	const std::string message = message_of(act);

	if (message.find(want) != std::string::npos)
		return;
	printf("host_test.cpp:%d: message \"%s\", want \"%s\"\n", line, message.c_str(), want);
	failures++;
}
#define REFUSED(want, ...) check_refused((want), __LINE__, [&] { __VA_ARGS__; })

static const std::string net_8x8x3 = "[net]\nwidth=8\nheight=8\nchannels=3\n";

static network net_of(const std::string &text)
{
	return read_network(file("test.cfg", text));
}

static void test_cfg()
{
	const std::vector<cfg_section> sections = read_cfg(file(
	    "a.cfg", "# comment\n[network]\n batch = 4 \n\n; another\nsteps=1, 20,300\r\n[convolutional]\nsize=3\n"));
	CHECK(sections.size() == 2 && sections[0].name == "net" && sections[1].line == 7);
	CHECK(sections[0].integer("batch", 1, 1, 9) == 4);
	CHECK((sections[0].integers("steps") == std::vector<long>{1, 20, 300}));
	CHECK(sections[1].integer("stride", 5, 1, 9) == 5);

	const auto refused = [](const char *want, const std::string &text, int line) {
		check_refused(want, line, [&] { net_of(text); });
	};
	refused("test.cfg:5: unknown section [gru]; known are: [net]", net_8x8x3 + "[gru]\n", __LINE__);
	refused("test.cfg:5: unknown section [data]", net_8x8x3 + "[data]\n", __LINE__);
	refused("test.cfg:6: unknown key \"filter\" in [convolutional], which has: batch_normalize",
	        net_8x8x3 + "[convolutional]\nfilter=3\n", __LINE__);
	refused("test.cfg:7: \"size\" is given twice", net_8x8x3 + "[convolutional]\nsize=3\nsize=3\n", __LINE__);
	refused("test.cfg:6: [convolutional] size: \"3x\" is not a number", net_8x8x3 + "[convolutional]\nsize=3x\n",
	        __LINE__);
	refused("test.cfg:6: [convolutional] size: \"0\" is not an integer from 1", net_8x8x3 + "[convolutional]\nsize=0\n",
	        __LINE__);
	refused("test.cfg:6: [convolutional] activation: \"mish\" is unknown",
	        net_8x8x3 + "[convolutional]\nactivation=mish\n", __LINE__);
	refused("test.cfg:6: \"size\" is not a KEY=VALUE", net_8x8x3 + "[convolutional]\nsize\n", __LINE__);
	refused("test.cfg:1: \"size=3\" stands before the first section", "size=3\n", __LINE__);
	refused("test.cfg:1: [maxpool]: the first section", "[maxpool]\n", __LINE__);
	refused("no layer", net_8x8x3, __LINE__);
	refused("wants width, height and channels", "[net]\nwidth=8\n[softmax]\n", __LINE__);
	refused("test.cfg:6: [shortcut] from: -2 is not a layer", net_8x8x3 + "[shortcut]\nfrom=-2\n", __LINE__);
	refused("layers 0 and 1 differ in width or height",
	        net_8x8x3 + "[convolutional]\n[maxpool]\nstride=2\n[route]\nlayers=0,1\n", __LINE__);
	refused("has 3 channels, want (classes + 5) x 1 anchors = 7",
	        net_8x8x3 + "[yolo]\nclasses=2\nnum=1\nanchors=1,1\n", __LINE__);
	refused("test.cfg:10: [shortcut] from: layer 0 has 8x8 values, want the 3x3 of this layer's input or a multiple",
	        net_8x8x3 + "[maxpool]\n[convolutional]\nsize=4\nstride=2\n[shortcut]\nfrom=0\n", __LINE__);
	refused("test.cfg:9: [shortcut] from: layer 0 has 4x4 values, want the 8x8 of",
	        net_8x8x3 + "[maxpool]\nstride=2\n[upsample]\n[shortcut]\nfrom=0\n", __LINE__);
	for (const char *stride : {"2", "3"})
		refused("test.cfg:6: [reorg] stride: want one that divides the input's 8x8 values and whose square divides its 3",
		        net_8x8x3 + "[reorg]\nstride=" + stride + "\n", __LINE__);
	refused("test.cfg:5: [region] softmax: want softmax=1 and coords=4",
	        net_8x8x3 + "[region]\nclasses=2\nnum=1\nanchors=1,1\n", __LINE__);
	refused("has 3 channels, want (classes + 5) x 1 anchors = 7",
	        net_8x8x3 + "[region]\nsoftmax=1\nclasses=2\nnum=1\nanchors=1,1\n", __LINE__);
	refused("[net] time_steps: want 1", "[net]\ninputs=8\ntime_steps=4\n[softmax]\n", __LINE__);
	refused("values for a batch of 4096, want at most 2^31",
	        "[net]\nbatch=4096\nwidth=16384\nheight=16384\nchannels=3\n[softmax]\n", __LINE__);
	REFUSED("none.cfg: no such file", read_network(directory + "/none.cfg"));
	REFUSED("is not a regular file", read_network(directory));
	REFUSED("test.cfg:5: [rnn] cannot be trained here",
	        require_trainable(net_of("[net]\ninputs=4\nmax_batches=1\n[softmax]\n[rnn]\n[softmax]\n")));
	REFUSED("[reorg] cannot be trained here", require_trainable(read_network("test/region.cfg")));
	REFUSED("a.data:2: unknown key \"class\" in [data]", read_data(file("a.data", "classes=2\nclass=3\n")));

	const cfg_section data = read_data("../../mixes/suites/inputs/cfg/imagenet1k.data");
	CHECK(data.integer("classes", 0, 0, 9999) == 1000 && data.integer("top", 1, 1, 9) == 5);
}

static size_t count_of(const network &net, layer_kind kind)
{
	return std::count_if(net.layers.begin(), net.layers.end(), [=](const layer &l) { return l.kind == kind; });
}

/* Multiplications and additions of one image, in units of 1e9. */
static double billions_of(const network &net)
{
	double products = 0;

	for (const layer &l : net.layers)
		for (const bank &b : l.banks)
			products += double(b.weights()) * l.spatial();
	return 2 * products / 1e9;
}

/* The shapes equal the papers'. Operations and the sizes of .weights files are those that
 * Darknet publishes; it does not publish the operations of yolov2-320. */
static void test_networks()
{
	const struct {
		const char *name;
		int side;
		size_t layers, outputs;
		double billions;
		uint64_t weights; /* bytes of a file with the longer header */
	} published[] = {
	    {"alexnet", 227, 14, 1000, 2.27, 249513396},
	    {"darknet19", 256, 26, 1000, 7.29, 83427124},
	    {"resnet152", 256, 205, 1000, 29.4, 230239924},
	    {"yolov2-320", 320, 32, 425 * 10 * 10, 17.43, 203934264},
	    {"yolov2-608", 608, 32, 425 * 19 * 19, 62.94, 203934264},
	    {"yolov3-320", 320, 107, 255 * 40 * 40, 38.97, 248007048},
	    {"yolov3-608", 608, 107, 255 * 76 * 76, 140.69, 248007048},
	    {"yolov3-spp", 608, 114, 255 * 76 * 76, 141.45, 252209544},
	};
	for (const auto &want : published) {
		const network net = read_network(std::string("../../mixes/suites/inputs/cfg/") + want.name + ".cfg");
		CHECK(net.batch == 1 && net.w == want.side && net.h == want.side && net.layers.size() == want.layers);
		CHECK(net.outputs() == want.outputs);
		check_near(billions_of(net), want.billions, want.billions == 29.4 ? .05 : .005, want.name, __LINE__);
		CHECK(20 + weights_bytes(net) == want.weights);
	}
	const network resnet = read_network("../../mixes/suites/inputs/cfg/resnet152.cfg");
	CHECK(count_of(resnet, layer_kind::convolutional) == 152 && count_of(resnet, layer_kind::shortcut) == 50);
	const network yolov2 = read_network("../../mixes/suites/inputs/cfg/yolov2-608.cfg");
	CHECK(yolov2.layers[27].kind == layer_kind::reorg && yolov2.layers[27].out_c == 256);
	CHECK(yolov2.layers[28].out_c == 1280);

	const network darknet53 = read_network("../../mixes/suites/inputs/cfg/darknet53_448.cfg");
	CHECK(count_of(darknet53, layer_kind::convolutional) == 53 && count_of(darknet53, layer_kind::shortcut) == 23);
	CHECK(darknet53.layers[74].out_w == 14 && darknet53.layers[74].out_c == 1024 && darknet53.outputs() == 1000);
	CHECK(20 + weights_bytes(darknet53) == 166582580);

	const network tiny = read_network("../../mixes/suites/inputs/cfg/yolov3-tiny.cfg");
	CHECK(tiny.layers.size() == 24 && tiny.layers[16].out_w == 13 && tiny.layers[23].out_w == 26);
	CHECK(tiny.layers[11].out_w == 13 && tiny.layers[20].out_c == 384);
	CHECK(20 + weights_bytes(tiny) == 35434956);

	const network rnn = read_network("../../mixes/suites/inputs/cfg/rnn.cfg");
	CHECK(rnn.inputs() == 256 && rnn.outputs() == 256 && count_of(rnn, layer_kind::rnn) == 3);
	CHECK(rnn.layers[1].banks[2].weights() == 1024 * 1024);

	const network cifar = read_network("../../mixes/suites/inputs/cfg/cifar_small.cfg");
	CHECK(cifar.batch == 128 && cifar.w == 28 && cifar.outputs() == 10 && cifar.layers[8].out_w == 7);
	require_trainable(cifar);

	/* Prediction: output 10x12x12, weights 10x27, biases, columns 27x144, input 3x12x12 and
	 * cuBLAS. Training: also delta and updates of each, batch normalization's sums and
	 * normalized values, 4 statistics, the truth and the losses. */
	const std::string text = "[net]\nwidth=12\nheight=12\nchannels=3\nbatch=6\nsubdivisions=3\n"
	                         "[convolutional]\nbatch_normalize=1\nfilters=10\nsize=3\npad=1\n";
	const network small = net_of(text);
	const uint64_t predict = 2 * 1440 + (270 + 4 * 10) + 27 * 144 + 2 * 432 + (32 << 18);
	CHECK(small.batch == 2 && small.subdivisions == 3);
	CHECK(footprint_bytes(small, false) == 4 * predict);
	CHECK(footprint_bytes(small, true) == 4 * (predict + 2 * 1440 + 270 + 20 + 4 * 1440 + 40 + 2 * 1440 + 2 * 1440));
	CHECK(largest_kernel_of(small, false).threads == 2880);

	CHECK(grid_of(1).x == 1 && grid_of(512).x == 1 && grid_of(513).x == 2);
	CHECK(grid_of(size_t(65535) * 512).x == 65535 && grid_of(size_t(65535) * 512).y == 1);
	const grid_size folded = grid_of(size_t(65536) * 512);
	CHECK(folded.x == 256 && folded.y == 256);
	const grid_size uneven = grid_of(size_t(70000) * 512);
	CHECK(uneven.x == 265 && uneven.y == 265 && uneven.x * uneven.y >= 70000);
}

static void test_rates()
{
	network net = net_of("[net]\ninputs=2\nlearning_rate=2\nburn_in=10\npower=3\nmax_batches=100\npolicy=poly\n[softmax]\n");
	NEAR(rate_at(net, 5), 2 * .125, 1e-12);
	NEAR(rate_at(net, 50), 2 * .125, 1e-12);
	NEAR(rate_at(net, 100), 0, 0);
	net = net_of("[net]\ninputs=2\nlearning_rate=2\npolicy=steps\nsteps=10,20\nscales=.1,.5\n[softmax]\n");
	NEAR(rate_at(net, 9), 2, 0);
	NEAR(rate_at(net, 10), .2, 1e-12);
	NEAR(rate_at(net, 25), .1, 1e-12);
	net = net_of("[net]\ninputs=2\nlearning_rate=2\n[softmax]\n");
	NEAR(rate_at(net, 1000), 2, 0);
}

static bool same(const model &a, const model &b)
{
	for (size_t i = 0; i < a.layers.size(); i++)
		for (size_t j = 0; j < a.layers[i].size(); j++) {
			const parameters &p = a.layers[i][j], &q = b.layers[i][j];
			if (p.biases != q.biases || p.scales != q.scales || p.means != q.means || p.variances != q.variances ||
			    p.weights != q.weights)
				return false;
		}
	return a.seen == b.seen;
}

static std::string floats(std::initializer_list<float> values)
{
	return std::string(reinterpret_cast<const char *>(values.begin()), values.size() * sizeof(float));
}

static std::string header(int32_t major, int32_t minor, uint64_t seen, size_t seen_bytes)
{
	const int32_t version[3] = {major, minor, 0};

	return std::string(reinterpret_cast<const char *>(version), sizeof version) +
	       std::string(reinterpret_cast<const char *>(&seen), seen_bytes);
}

/* The order of arrays in a file differs between a convolutional and a connected
 * layer. */
static void test_weights()
{
	const network net = net_of("[net]\nwidth=1\nheight=1\nchannels=2\n[convolutional]\nbatch_normalize=1\n"
	                           "[connected]\nbatch_normalize=1\noutput=1\n");
	const std::string content = floats({1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14});
	for (const std::string &start : {header(0, 1, 77, 4), header(0, 2, 77, 8), header(1, 0, 77, 8)}) {
		const model m = load_model(net, file("a.weights", start + content), 0);
		const parameters &c = m.layers[0][0], &f = m.layers[1][0];
		CHECK(m.seen == 77);
		CHECK(c.biases[0] == 1 && c.scales[0] == 2 && c.means[0] == 3 && c.variances[0] == 4 && c.weights[1] == 6);
		CHECK(f.biases[0] == 10 && f.weights[0] == 11 && f.scales[0] == 12 && f.means[0] == 13 &&
		      f.variances[0] == 14);
	}
	REFUSED("b.weights has 63 bytes, want 64",
	        load_model(net, file("b.weights", header(0, 2, 1, 8) + content.substr(1)), 0));
	REFUSED("b.weights has 61 bytes, want 60", load_model(net, file("b.weights", header(0, 1, 1, 4) + content + "x"), 0));
	REFUSED("b.weights has 3 bytes, too few", load_model(net, file("b.weights", "abc"), 0));
	REFUSED("is not a .weights file", load_model(net, file("b.weights", header(1000, 2, 1, 8) + content), 0));
	REFUSED("is not a regular file", load_model(net, directory, 0));

	const network larger = read_network("test/train.cfg");
	model made = seeded_model(larger, 3);
	made.seen = 1234567890123;
	CHECK(same(made, seeded_model(larger, 3)) == false);
	save_model(larger, made, directory + "/saved.weights");
	CHECK(same(made, load_model(larger, directory + "/saved.weights", 9)));
	CHECK(!same(seeded_model(larger, 3), seeded_model(larger, 4)));

	/* Few boxes show an object. */
	const network detector = read_network("test/region.cfg");
	const model seeded = seeded_model(detector, 3);
	const parameters &head = seeded.layers[12][0];
	const int inputs = detector.layers[12].banks[0].inputs;
	for (int n = 0; n < 3; n++) {
		CHECK(head.biases[n * 9 + 4] == -2.5f && head.biases[n * 9 + 5] > -.2f);
		for (int i = 0; i < inputs; i++)
			CHECK(fabs(head.weights[(n * 9 + 4) * inputs + i]) <= sqrt(6. / inputs) / 16);
	}
}

static image loaded(const std::string &name)
{
	image im;

	load_image(name, 3, &im);
	return im;
}

static image boxed_in(const image &from, int w, int h)
{
	image im;

	im.reshape(w, h, from.c);
	letterbox(from, w, h, im.values.data());
	return im;
}

static image crop_of(const image &from, const network &net, uint64_t seed)
{
	image im;

	im.reshape(net.w, net.h, net.c);
	augment(from, net, seed, im.values.data());
	return im;
}

static image blank(int w, int h, int c)
{
	image im;

	im.reshape(w, h, c);
	std::fill(im.values.begin(), im.values.end(), 0.f);
	return im;
}

static void test_images()
{
	const image a = loaded("gen:20x10:5"), b = loaded("gen:20x10:5");
	CHECK(a.w == 20 && a.h == 10 && a.c == 3 && a.values == b.values);
	CHECK(a.values != loaded("gen:20x10:6").values);
	CHECK(*std::min_element(a.values.begin(), a.values.end()) >= 0);
	CHECK(*std::max_element(a.values.begin(), a.values.end()) <= 1);
	for (const char *bad : {"gen:", "gen:0x1:1", "gen:1x1", "gen:1x1:1 ", "gen:20000x1:1", "gen:-1x1:1"})
		REFUSED("want gen:WIDTHxHEIGHT:SEED", check_image_name(bad));
	REFUSED("none.png: No such file", loaded(directory + "/none.png"));
	REFUSED("want a PNG, JPEG or BMP file", loaded(file("a.png", "no image")));

	/* 2x1 pixels, as BMP (blue, green, red; rows end at 4 bytes) and PNG. */
	const std::vector<unsigned char> bmp = {
	    'B', 'M', 62, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 24, 0, 0,
	    0,   0,   0,  8, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 255, 51, 0, 0, 0, 102, 0, 0};
	const std::vector<unsigned char> png = {
	    137, 'P', 'N', 'G', 13, 10,  26,  10,  0,   0,   0,   13,  'I', 'H', 'D', 'R', 0, 0, 0, 2, 0, 0, 0, 1,
	    8,   2,   0,   0,   0,  123, 64,  232, 221, 0,   0,   0,   15,  'I', 'D', 'A', 'T', 120, 218, 99, 96, 48,
	    254, 159, 198, 192, 0,  0,   6,   52,  1,   153, 207, 201, 164, 44,  0,   0,   0,   0,   'I', 'E', 'N',
	    'D', 174, 66,  96,  130};
	for (const auto &bytes : {bmp, png}) {
		const image read = loaded(file("a.image", std::string(bytes.begin(), bytes.end())));
		const std::vector<float> want = {0, .4f, .2f, 0, 1, 0};
		CHECK(read.w == 2 && read.h == 1);
		for (size_t i = 0; i < want.size(); i++)
			NEAR(read.values[i], want[i], 1e-6);
	}

	/* A grey JPEG of 8x8: divisors 8; one Huffman code each, for a first
	 * difference of 7 bits and for the end of a block; 76 above the middle. */
	const std::vector<unsigned char> quantization = {0xff, 0xd8, 0xff, 0xdb, 0, 67, 0};
	const std::vector<unsigned char> rest = {
	    0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0,
	    0xff, 0xc4, 0, 20, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7,
	    0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	    0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x4c, 0x7f, 0xff, 0xd9};
	const image grey = loaded(file("a.jpg", std::string(quantization.begin(), quantization.end()) +
	                                            std::string(64, 8) + std::string(rest.begin(), rest.end())));
	CHECK(grey.w == 8 && grey.h == 8);
	for (float value : grey.values)
		NEAR(value, 204 / 255., 1e-6);

	/* 8x6 becomes the middle 5x3 of 5x5. A linear gradient stays linear. */
	image wide = blank(8, 6, 1);
	for (int i = 0; i < 48; i++)
		wide.values[i] = i % 8 + 10.f * (i / 8);
	const image boxed = boxed_in(wide, 5, 5);
	for (int x = 0; x < 5; x++) {
		CHECK(boxed.row(0, 0)[x] == .5f && boxed.row(0, 4)[x] == .5f);
		for (int y = 0; y < 3; y++)
			NEAR(boxed.row(0, 1 + y)[x], x * 7 / 4. + 10 * y * 5 / 2., 1e-5);
	}
	CHECK(boxed_in(wide, 8, 6).values == wide.values);
}

/* Without turning, stretching and changes of colour, a crop is a part of the image. */
static void test_augmentation()
{
	network net = net_of("[net]\nwidth=4\nheight=4\nchannels=1\nmin_crop=6\nmax_crop=6\n[softmax]\n");
	image whole = blank(6, 6, 1);
	for (int i = 0; i < 36; i++)
		whole.values[i] = i / 36.f;
	bool mirrored = false, plain = false;
	for (uint64_t seed = 0; seed < 40; seed++) {
		const image crop = crop_of(whole, net, seed);
		const float right = crop.row(0, 1)[2] - crop.row(0, 1)[1], down = crop.row(0, 2)[1] - crop.row(0, 1)[1];
		NEAR(fabs(right), 1 / 36., 1e-5);
		NEAR(down, 6 / 36., 1e-5);
		mirrored |= right < 0;
		plain |= right > 0;
	}
	CHECK(mirrored && plain);

	/* A third of the circle turns red into green or blue; exposure darkens. */
	net = net_of("[net]\nwidth=4\nheight=4\nchannels=3\nmin_crop=4\nmax_crop=4\nhue=.3333333\n[softmax]\n");
	image red = blank(4, 4, 3);
	std::fill(red.row(0, 0), red.row(1, 0), .8f);
	for (uint64_t seed = 0; seed < 10; seed++) {
		const image turned = crop_of(red, net, seed);
		const float r = turned.row(0, 0)[0], g = turned.row(1, 0)[0], b = turned.row(2, 0)[0];
		NEAR(std::max(r, std::max(g, b)), .8, 1e-5);
		NEAR(std::min(r, std::min(g, b)), 0, 1e-5);
		CHECK(g == 0 || b == 0);
	}
}

static void test_training_set()
{
	const network net = read_network("test/train.cfg");
	const size_t images = net.batch * net.inputs(), truths = net.batch * net.outputs();
	std::vector<float> a(images), b(images), at(truths), bt(truths);
	const training_set made(read_data("test/train.data"), net, 3);
	made.batch(5, a.data(), at.data());
	made.batch(5, b.data(), bt.data());
	CHECK(a == b && at == bt);
	made.batch(6, b.data(), bt.data());
	CHECK(a != b);
	for (int i = 0; i < net.batch; i++)
		CHECK(std::count(&at[i * 5], &at[i * 5] + 5, 1.f) == 1 && std::count(&at[i * 5], &at[i * 5] + 5, 0.f) == 4);

	const std::string list = file("train.list", "gen:20x20:1\n\n gen:21x20:3 \n");
	const std::string labels = file("labels.txt", "gen:22\ngen:20\ngen:23\ngen:21\ngen:2x\n");
	const std::string data = file("b.data", "classes=5\ntrain=" + list + "\nlabels=" + labels + "\n");
	const training_set listed(read_data(data), net, 3);
	CHECK(listed.size() == 2);
	listed.batch(0, a.data(), at.data());
	for (int i = 0; i < net.batch; i++)
		CHECK(at[i * 5 + 1] + at[i * 5 + 3] == 1);
	file("train.list", "gen:30x30:7\n");
	const training_set unlabelled(read_data(data), net, 3);
	REFUSED("its path has none of the labels", unlabelled.batch(0, a.data(), at.data()));
	REFUSED("labels.txt has 2 labels, want 5",
	        file("labels.txt", "a\nb\n"); training_set(read_data(data), net, 3));
}

/* The batches of a list come in order. The last batch has the remaining images. */
static void test_input()
{
	const network net = net_of("[net]\nbatch=2\nwidth=8\nheight=4\nchannels=3\n[softmax]\n");
	image_batch batch;
	const auto list = [](const std::string &lines) {
		if (!freopen(file("list.txt", lines).c_str(), "r", stdin))
			abort();
	};

	list("gen:8x4:1\n\ngen:16x16:2\r\ngen:8x4:3");
	image_batches three(net, "");
	CHECK(three.next(&batch));
	CHECK((batch.names == std::vector<std::string>{"gen:8x4:1", "gen:16x16:2"}) && batch.sizes[1].first == 16);
	CHECK(std::equal(&batch.values[0], &batch.values[96], loaded("gen:8x4:1").values.begin()));
	CHECK(batch.values[96] == .5f); /* the border of a square */
	CHECK(three.next(&batch) && batch.names == std::vector<std::string>{"gen:8x4:3"});
	CHECK(std::equal(&batch.values[0], &batch.values[96], loaded("gen:8x4:3").values.begin()));
	CHECK(!three.next(&batch) && !three.next(&batch));

	/* With an image on the command line, standard input is not read. */
	list("gen:8x4:1\n");
	image_batches one(net, "gen:8x4:9");
	CHECK(one.next(&batch) && batch.names == std::vector<std::string>{"gen:8x4:9"} && !one.next(&batch));

	/* A bad image ends the program only when its turn comes. */
	list("gen:8x4:1\ngen:8x4:2\nnone.png\n");
	image_batches bad(net, "");
	CHECK(bad.next(&batch) && batch.names.size() == 2);
	try {
		bad.next(&batch);
		CHECK(!"an image that is missing is refused");
	} catch (const std::runtime_error &error) {
		CHECK(std::string(error.what()) == "image none.png: No such file or directory");
	}

	REFUSED("image none.png: No such file", image_batches(net, "none.png"));
	CHECK(read_names(file("names.txt", "a b\nc\n"), 2)[0] == "a b");
	REFUSED("names.txt has 2 names, want 3", read_names(directory + "/names.txt", 3));
}

static void test_boxes()
{
	const network net = net_of("[net]\nwidth=64\nheight=128\nchannels=14\n[maxpool]\nstride=32\n"
	                           "[yolo]\nclasses=2\nnum=3\nmask=1,2\nanchors=1,1, 16,32, 8,8\n");
	std::vector<float> values(net.outputs());
	CHECK(values.size() == 14 * 8);
	const auto at = [&](int anchor, int entry, int cell) -> float & { return values[(anchor * 7 + entry) * 8 + cell]; };
	at(0, 0, 3) = .5f; /* cell (1, 1) of 2x4: centre at 0.75, 0.3125 */
	at(0, 1, 3) = .25f;
	at(0, 2, 3) = logf(2); /* twice the anchor's width */
	at(0, 3, 3) = 0;
	at(0, 4, 3) = .8f;
	at(0, 5, 3) = .9f;
	at(0, 6, 3) = .5f;
	std::vector<box> boxes;
	decode_head(net, 1, values.data(), 100, 50, .5f, &boxes);
	CHECK(boxes.size() == 1);
	if (boxes.size() == 1) {
		NEAR(boxes[0].x, .75, 1e-6);
		NEAR(boxes[0].y, (.3125 - .375) / .25, 1e-6); /* the image covers a quarter of the height */
		NEAR(boxes[0].w, .5, 1e-6);
		NEAR(boxes[0].h, 1, 1e-6);
		NEAR(boxes[0].chances[0], .72, 1e-6);
		CHECK(boxes[0].chances[1] == 0);
	}

	/* The anchors of a region are in cells. All of them predict. */
	const network region = net_of("[net]\nwidth=64\nheight=128\nchannels=14\n[maxpool]\nstride=32\n"
	                              "[region]\nsoftmax=1\nclasses=2\nnum=2\nanchors=.5,1, .25,.25\n");
	std::vector<box> same;
	decode_head(region, 1, values.data(), 100, 50, .5f, &same);
	CHECK(same.size() == 1);
	if (same.size() == 1) {
		NEAR(same[0].x, .75, 1e-6);
		NEAR(same[0].w, .5, 1e-6);
		NEAR(same[0].h, 1, 1e-6);
		NEAR(same[0].chances[0], .72, 1e-6);
	}

	const box a = {.5f, .5f, .2f, .2f, {.9f, .6f}}, b = {.55f, .5f, .2f, .2f, {.8f, .7f}},
	          c = {.1f, .1f, .1f, .1f, {.7f, 0}};
	NEAR(overlap(a, b), .15 * .2 / (.08 - .03), 1e-5);
	CHECK(overlap(a, c) == 0);
	boxes = {b, a, c};
	suppress(&boxes, .45f);
	CHECK(boxes[0].chances[0] == 0 && boxes[0].chances[1] == .7f);
	CHECK(boxes[1].chances[0] == .9f && boxes[1].chances[1] == 0 && boxes[2].chances[0] == .7f);
}

static std::vector<float> random_floats(size_t count, uint64_t seed)
{
	std::vector<float> values(count);
	random_sequence random(seed, 0);

	for (float &value : values)
		value = float(random.between(-1, 1));
	return values;
}

static void test_forward()
{
	/* 1 channel, 3x3 image 1..9; a 3x3 window of ones sums neighbours. */
	network net = net_of("[net]\nwidth=3\nheight=3\nchannels=1\n[convolutional]\nsize=3\nstride=2\npad=1\nactivation=leaky\n");
	model m = seeded_model(net, 1);
	m.layers[0][0].weights.assign(9, 1);
	m.layers[0][0].biases = {-20};
	const float image[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	host_network sums(net, m);
	sums.forward(image, nullptr);
	const double want[] = {(12 - 20) * .1, (16 - 20) * .1, 4, 8};
	for (int i = 0; i < 4; i++)
		NEAR(sums.layers[0].output[i], want[i], 1e-12);

	/* Each group of filters sees its own channels. */
	net = net_of("[net]\ninputs=4\n[convolutional]\nfilters=2\ngroups=2\nactivation=linear\n");
	m = seeded_model(net, 1);
	m.layers[0][0] = {{0, 0}, {}, {}, {}, {1, 10, 1, 10}};
	host_network grouped(net, m);
	grouped.forward(image, nullptr);
	CHECK((grouped.layers[0].output == reals{21, 43}));

	/* Batch normalization: (x - 2) / sqrt(4 + e) * 3 + 1. */
	net = net_of("[net]\ninputs=1\n[connected]\nbatch_normalize=1\noutput=1\nactivation=linear\n");
	m = seeded_model(net, 1);
	m.layers[0][0] = {{1}, {3}, {2}, {4}, {5}};
	host_network normal(net, m);
	const float two = 2;
	normal.forward(&two, nullptr);
	NEAR(normal.layers[0].output[0], (10 - 2) / sqrt(4.00001) * 3 + 1, 1e-6);

	/* Overlapping windows with half of the padding before; groups of softmax. */
	net = net_of("[net]\nwidth=3\nheight=3\nchannels=1\n[maxpool]\nsize=2\nstride=1\n[avgpool]\n");
	host_network pooled(net, seeded_model(net, 1));
	pooled.forward(image, nullptr);
	CHECK((pooled.layers[0].output == reals{5, 6, 6, 8, 9, 9, 8, 9, 9}));
	NEAR(pooled.layers[1].output[0], 69 / 9., 1e-12);
	net = net_of("[net]\ninputs=4\n[softmax]\ngroups=2\ntemperature=.5\n");
	host_network soft(net, seeded_model(net, 1));
	const float logits[] = {0, float(log(3) / 2), 7, 7};
	soft.forward(logits, nullptr);
	NEAR(soft.layers[0].output[0], .25, 1e-6);
	NEAR(soft.layers[0].output[3], .5, 1e-12);

	/* A route joins images, an upsample repeats, a shortcut adds. */
	net = net_of("[net]\nwidth=2\nheight=1\nchannels=1\nbatch=2\n[maxpool]\n[upsample]\nstride=2\n[route]\n"
	             "layers=-1,1\n[shortcut]\nfrom=2\nactivation=relu\n");
	host_network joined(net, seeded_model(net, 1));
	const float pairs[] = {1, 2, 3, -4};
	joined.forward(pairs, nullptr);
	CHECK((joined.layers[2].output == reals{1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2,
	                                        3, 3, -4, -4, 3, 3, -4, -4, 3, 3, -4, -4, 3, 3, -4, -4}));
	CHECK(joined.layers[3].output[0] == 2 && joined.layers[3].output[16] == 6 && joined.layers[3].output[18] == 0);

	/* A shortcut takes each second row and column, of the channels that both have. */
	net = net_of("[net]\nwidth=4\nheight=2\nchannels=2\nbatch=2\n[maxpool]\n[convolutional]\nfilters=1\nstride=2\n"
	             "activation=linear\n[shortcut]\nfrom=0\n[convolutional]\nfilters=3\nactivation=linear\n"
	             "[shortcut]\nfrom=0\nactivation=leaky\n");
	m = seeded_model(net, 1);
	m.layers[1][0] = {{100}, {}, {}, {}, {0, 0}};
	m.layers[3][0] = {{-5, -6, -7}, {}, {}, {}, {0, 0, 0}};
	host_network sampled(net, m);
	float counted[32];
	for (int i = 0; i < 32; i++)
		counted[i] = float(i);
	sampled.forward(counted, nullptr);
	CHECK((sampled.layers[2].output == reals{100, 102, 116, 118}));
	const double leaky[] = {-.5, -.3, 2, 4, -.7, -.7, 11, 13, 18, 20, -.7, -.7};
	for (int i = 0; i < 12; i++)
		NEAR(sampled.layers[4].output[i], leaky[i], 1e-6);

	/* 2x2 values of 4 channels, read as 4x4 values of one channel, become 16 channels. */
	net = net_of("[net]\nwidth=2\nheight=2\nchannels=4\nbatch=2\n[reorg]\nstride=2\n");
	CHECK(net.layers[0].out_w == 1 && net.layers[0].out_h == 1 && net.layers[0].out_c == 16);
	host_network reordered(net, seeded_model(net, 1));
	reordered.forward(counted, nullptr);
	const double order[] = {0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15};
	for (int i = 0; i < 32; i++)
		CHECK(reordered.layers[0].output[i] == order[i % 16] + i / 16 * 16);

	/* Position and objectness of a region are logistic, and the chances of its classes add up to 1. */
	net = net_of("[net]\nwidth=2\nheight=1\nchannels=14\n[region]\nsoftmax=1\nclasses=2\nnum=2\nanchors=1,1, 2,2\n");
	host_network region(net, seeded_model(net, 1));
	std::vector<float> entries(28, 0);
	entries[2 * 2] = 5;                  /* a width */
	entries[14 + 6 * 2 + 1] = logf(3);   /* the second class of the second anchor in the second cell */
	region.forward(entries.data(), nullptr);
	const reals &chances = region.layers[0].output;
	CHECK(chances[0] == .5 && chances[2] == .5 && chances[4] == 5 && chances[6] == 0 && chances[8] == .5);
	CHECK(chances[10] == .5 && chances[12] == .5);
	NEAR(chances[14 + 5 * 2 + 1], .25, 1e-6);
	NEAR(chances[14 + 6 * 2 + 1], .75, 1e-6);

	/* state = 2x + state, output = 3 state. */
	net = net_of("[net]\ninputs=1\n[rnn]\noutput=1\nactivation=linear\n");
	m = seeded_model(net, 1);
	for (int j = 0; j < 3; j++)
		m.layers[0][j] = {{0}, {}, {}, {}, {float(j == 0 ? 2 : j == 1 ? 1 : 3)}};
	host_network recurrent(net, m);
	for (double want_output : {12., 24., 36.}) {
		recurrent.forward(&two, nullptr);
		NEAR(recurrent.layers[0].output[0], want_output, 1e-12);
	}
}

/* Compares the gradient of each parameter from backward() with the change of the loss when
 * the parameter changes a little. Only for smooth activations, because the others are not
 * differentiable everywhere. */
static void check_gradients(const char *name, const std::string &text, int line)
{
	const network net = net_of(text);
	model start = seeded_model(net, 11);
	const std::vector<float> images = random_floats(net.batch * net.inputs(), 5);
	std::vector<float> truths = random_floats(net.batch * net.outputs(), 6);
	const std::vector<float> random = random_floats(1 << 14, 7);
	if (net.layers.back().kind == layer_kind::softmax)
		for (int b = 0; b < net.batch; b++) { /* chances add up to 1 */
			std::fill_n(&truths[b * net.outputs()], net.outputs(), 0.f);
			truths[b * net.outputs() + b % net.outputs()] = 1;
		}
	const auto prepare = [&](host_network *h) {
		for (size_t i = 0; i < net.layers.size(); i++)
			h->layers[i].random.assign(random.begin(), random.begin() + net.batch * net.layers[i].outputs());
	};
	host_network exact(net, start);
	prepare(&exact);
	exact.forward(images.data(), truths.data());
	exact.backward();
	int compared = 0;
	for (size_t i = 0; i < net.layers.size(); i++) {
		if (net.layers[i].banks.empty())
			continue;
		const auto each = [&](reals host_network::bank_values::*values, reals host_network::bank_values::*updates) {
			const size_t count = (exact.layers[i].banks[0].*values).size();
			for (size_t k = 0; k < count; k += 1 + count / 7) {
				const double step = 1e-5;
				double losses[2];
				for (int side = 0; side < 2; side++) {
					host_network moved(net, start);
					prepare(&moved);
					(moved.layers[i].banks[0].*values)[k] += side ? step : -step;
					moved.forward(images.data(), truths.data());
					losses[side] = moved.loss();
				}
				double numeric = -(losses[1] - losses[0]) / (2 * step);
				/* Darknet's squared error is the square, but its delta is half the gradient. */
				if (net.layers.back().kind == layer_kind::cost)
					numeric /= 2;
				check_near((exact.layers[i].banks[0].*updates)[k], numeric, 1e-6 + 1e-5 * fabs(numeric), name, line);
				compared++;
			}
		};
		each(&host_network::bank_values::weights, &host_network::bank_values::weight_updates);
		each(&host_network::bank_values::biases, &host_network::bank_values::bias_updates);
		each(&host_network::bank_values::scales, &host_network::bank_values::scale_updates);
	}
	check(compared > 5, name, line);
}

static void test_gradients()
{
	const std::string net = "[net]\nwidth=5\nheight=6\nchannels=2\nbatch=3\n";
	const std::string end = "[connected]\noutput=3\nactivation=tanh\n[softmax]\n";
	const std::string conv = "[convolutional]\nfilters=4\nsize=3\npad=1\nactivation=";
	check_gradients("connected", net + end, __LINE__);
	check_gradients("squared error", net + "[connected]\noutput=3\nactivation=logistic\n[cost]\n", __LINE__);
	check_gradients("normalized connected", net + "[connected]\nbatch_normalize=1\noutput=4\nactivation=tanh\n" + end,
	                __LINE__);
	check_gradients("convolution", net + conv + "tanh\nstride=2\n" + conv + "logistic\ngroups=2\n" + end, __LINE__);
	check_gradients("normalized convolution",
	                net + conv + "tanh\nbatch_normalize=1\n" + conv + "linear\nbatch_normalize=1\n" + end, __LINE__);
	check_gradients("pooling", net + conv + "tanh\n[maxpool]\nsize=3\nstride=2\n" + conv + "tanh\n[avgpool]\n" + end,
	                __LINE__);
	check_gradients("shortcut", net + conv + "tanh\n" + conv + "tanh\n[shortcut]\nfrom=-2\nactivation=tanh\n" + end,
	                __LINE__);
	check_gradients("shortcuts to other shapes",
	                net + conv + "tanh\n[convolutional]\nfilters=3\nactivation=tanh\n[shortcut]\nfrom=0\n" +
	                    "[upsample]\nstride=2\n[convolutional]\nfilters=3\nsize=2\nstride=2\nactivation=tanh\n" +
	                    "[shortcut]\nfrom=-2\nactivation=tanh\n[convolutional]\nfilters=5\nactivation=tanh\n" +
	                    "[shortcut]\nfrom=-4\n" + end,
	                __LINE__);
	check_gradients("route and upsample",
	                net + conv + "tanh\n[upsample]\nstride=2\n" + conv +
	                    "tanh\n[route]\nlayers=-2,-1\n[route]\nlayers=-1,1\n" + end,
	                __LINE__);
	check_gradients("dropout", net + conv + "tanh\n[dropout]\nprobability=.4\n" + end, __LINE__);
}

/* Two updates computed by hand: one weight w, a batch of two inputs 1, truth 1, loss
 * (1 - w)^2. */
static void test_update()
{
	const network net =
	    net_of("[net]\ninputs=1\nbatch=2\nmomentum=.5\ndecay=.1\n[connected]\noutput=1\nactivation=linear\n[cost]\n");
	model m = seeded_model(net, 1);
	m.layers[0][0] = {{0}, {}, {}, {}, {0}};
	host_network h(net, m);
	const float ones[] = {1, 1};
	double weight = 0, bias = 0, weight_update = 0, bias_update = 0;
	for (int i = 0; i < 2; i++) {
		h.forward(ones, ones);
		h.backward();
		const double delta = 1 - (weight + bias);
		weight_update += 2 * delta - 2 * .1 * weight;
		bias_update += 2 * delta;
		weight += .25 / 2 * weight_update;
		bias += .25 / 2 * bias_update;
		weight_update *= .5;
		bias_update *= .5;
		h.update(.25);
		NEAR(h.layers[0].banks[0].weights[0], weight, 1e-12);
		NEAR(h.layers[0].banks[0].biases[0], bias, 1e-12);
	}

	/* Averages move by a hundredth of the difference. */
	const network normalized = net_of("[net]\ninputs=1\nbatch=2\n[connected]\nbatch_normalize=1\noutput=1\n"
	                                  "activation=linear\n[cost]\n");
	m = seeded_model(normalized, 1);
	m.layers[0][0] = {{0}, {1}, {10}, {20}, {1}};
	host_network averages(normalized, m);
	const float inputs[] = {1, 5}, truths[] = {0, 0};
	averages.forward(inputs, truths);
	NEAR(averages.layers[0].banks[0].means[0], 9.9 + .03, 1e-9);
	NEAR(averages.layers[0].banks[0].variances[0], 19.8 + .04, 1e-9);
	NEAR(averages.layers[0].output[0], -2 / sqrt(4.00001), 1e-9);
}

/* The gradient follows the adopted outputs: on the other side of a leaky sum's 0, and at
 * the other of two equal inputs of a maximum. */
static void test_adopted_outputs()
{
	const network net = net_of("[net]\nwidth=2\nheight=1\nchannels=1\n[convolutional]\nactivation=leaky\n"
	                           "[maxpool]\nsize=2\nstride=2\n[cost]\n");
	model m = seeded_model(net, 1);
	m.layers[0][0] = {{0}, {}, {}, {}, {1}};
	const float image[] = {1e-9f, 0}, truth = 1;
	for (const bool adopted : {false, true}) {
		host_network h(net, m);
		h.forward(image, &truth);
		if (adopted)
			h.adopt({{-2e-9f, -1e-9f}, {-1e-9f}, {-1e-9f}});
		h.backward();
		NEAR(h.layers[0].delta[0], adopted ? 0 : 1, 1e-6);
		NEAR(h.layers[0].delta[1], adopted ? .1 : 0, 1e-6);
	}
}

int main()
{
	char folder[] = "/tmp/darknet-host-test-XXXXXX";

	if (!mkdtemp(folder))
		return 1;
	directory = folder;
	test_cfg();
	test_networks();
	test_rates();
	test_weights();
	test_images();
	test_augmentation();
	test_training_set();
	test_input();
	test_boxes();
	test_forward();
	test_gradients();
	test_update();
	test_adopted_outputs();
	if (system(("rm -rf " + directory).c_str()))
		failures++;
	printf("benchmarks/darknet: %s\n", failures ? "host_test FAILED" : "host_test ok");
	return failures != 0;
}
