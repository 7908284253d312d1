#include "network.h"

#include "common/host.h"

#include <math.h>

#include <algorithm>

static const char *const kind_names[] = {"convolutional", "connected", "maxpool", "avgpool", "shortcut",
                                         "route",         "upsample",  "reorg",   "yolo",    "region",
                                         "rnn",           "softmax",   "cost",    "dropout"};

const char *kind_name(layer_kind kind)
{
	return kind_names[int(kind)];
}

static layer_kind kind_of(const std::string &name)
{
	int kind = 0;

	while (name != kind_names[kind])
		kind++;
	return layer_kind(kind);
}

static activation activation_of(const cfg_section &section, const char *missing)
{
	const std::string name = section.text("activation", missing);
	const char *const names[] = {"linear", "leaky", "logistic", "relu", "tanh"};

	for (int i = 0; i < 5; i++)
		if (name == names[i])
			return activation(i);
	section.fail("activation", "\"" + name + "\" is unknown; known are linear, leaky, logistic, relu, tanh");
}

/* The largest side, the largest number of channels or filters, and the largest batch. */
enum { MAX_SIDE = 1 << 14, MAX_FILTERS = 1 << 16, MAX_BATCH = 1 << 12 };

/* earlier returns the layer that `value` names: counted from 0, or back from `at` if
 * `value` is negative. */
static int earlier(const cfg_section &section, const char *key, long value, int at)
{
	const long index = value < 0 ? at + value : value;

	if (index < 0 || index >= at)
		section.fail(key, std::to_string(value) + " is not a layer before layer " + std::to_string(at));
	return int(index);
}

static void shape_convolutional(const cfg_section &s, layer *l)
{
	const int filters = s.integer("filters", 1, 1, MAX_FILTERS);

	l->size = s.integer("size", 1, 1, MAX_SIDE);
	l->stride = s.integer("stride", 1, 1, MAX_SIDE);
	l->groups = s.integer("groups", 1, 1, MAX_FILTERS);
	l->pad = s.integer("pad", 0, 0, 1) ? l->size / 2 : s.integer("padding", 0, 0, MAX_SIDE);
	if (l->c % l->groups || filters % l->groups)
		s.fail("groups", "divides neither " + std::to_string(l->c) + " channels nor " +
		                     std::to_string(filters) + " filters evenly");
	if (l->w + 2 * l->pad < l->size || l->h + 2 * l->pad < l->size)
		s.fail("size", "is larger than the input");
	l->out_w = (l->w + 2 * l->pad - l->size) / l->stride + 1;
	l->out_h = (l->h + 2 * l->pad - l->size) / l->stride + 1;
	l->out_c = filters;
	l->banks = {{filters, l->size * l->size * (l->c / l->groups), s.integer("batch_normalize", 0, 0, 1) != 0,
	             activation_of(s, "logistic")}};
}

static void shape_flat(layer *l, int outputs)
{
	l->out_w = l->out_h = 1;
	l->out_c = outputs;
}

static void shape_connected(const cfg_section &s, layer *l)
{
	shape_flat(l, s.integer("output", 1, 1, MAX_FILTERS));
	l->banks = {{l->out_c, int(l->inputs()), s.integer("batch_normalize", 0, 0, 1) != 0,
	             activation_of(s, "logistic")}};
}

static void shape_rnn(const cfg_section &s, layer *l)
{
	const bool normalize = s.integer("batch_normalize", 0, 0, 1) != 0;
	const activation act = activation_of(s, "logistic");

	shape_flat(l, s.integer("output", 1, 1, MAX_FILTERS));
	const int hidden = s.integer("hidden", l->out_c, 1, MAX_FILTERS);
	l->banks = {{hidden, int(l->inputs()), normalize, act},
	            {hidden, hidden, normalize, act},
	            {l->out_c, hidden, normalize, act}};
}

static void shape_maxpool(const cfg_section &s, layer *l)
{
	l->stride = s.integer("stride", 1, 1, MAX_SIDE);
	l->size = s.integer("size", l->stride, 1, MAX_SIDE);
	/* The padding of both sides together, as in Darknet. Half of it, rounded down, comes
	 * before the first column and row. */
	l->pad = s.integer("padding", l->size - 1, 0, l->size - 1);
	if (l->w + l->pad < l->size || l->h + l->pad < l->size)
		s.fail("size", "is larger than the input");
	l->out_w = (l->w + l->pad - l->size) / l->stride + 1;
	l->out_h = (l->h + l->pad - l->size) / l->stride + 1;
}

static void shape_shortcut(const cfg_section &s, const std::vector<layer> &before, layer *l)
{
	const int at = before.size();

	if (!s.has("from"))
		s.fail("from", "is missing");
	l->from = {earlier(s, "from", s.integer("from", 0, -MAX_FILTERS, MAX_FILTERS), at)};
	const layer &other = before[l->from[0]];
	l->stride = other.out_w / l->w;
	if (l->stride * l->w != other.out_w || l->stride * l->h != other.out_h)
		s.fail("from", "layer " + std::to_string(l->from[0]) + " has " + std::to_string(other.out_w) + "x" +
		                   std::to_string(other.out_h) + " values, want the " + std::to_string(l->w) + "x" +
		                   std::to_string(l->h) + " of this layer's input or a multiple");
	l->act = activation_of(s, "linear");
}

static void shape_route(const cfg_section &s, const std::vector<layer> &before, layer *l)
{
	for (long value : s.integers("layers"))
		l->from.push_back(earlier(s, "layers", value, before.size()));
	if (l->from.empty())
		s.fail("layers", "names no layer");
	const layer &first = before[l->from[0]];
	l->out_w = first.out_w;
	l->out_h = first.out_h;
	l->out_c = 0;
	for (int from : l->from) {
		if (before[from].out_w != l->out_w || before[from].out_h != l->out_h)
			s.fail("layers", "layers " + std::to_string(l->from[0]) + " and " + std::to_string(from) +
			                     " differ in width or height");
		l->out_c += before[from].out_c;
	}
}

static void shape_reorg(const cfg_section &s, layer *l)
{
	l->stride = s.integer("stride", 1, 1, 64);
	if (l->w % l->stride || l->h % l->stride || l->c % (l->stride * l->stride))
		s.fail("stride", "want one that divides the input's " + std::to_string(l->w) + "x" + std::to_string(l->h) +
		                     " values and whose square divides its " + std::to_string(l->c) + " channels");
	l->out_w = l->w / l->stride;
	l->out_h = l->h / l->stride;
	l->out_c = l->c * l->stride * l->stride;
}

/* The anchors of [yolo] are in pixels of the network, the anchors of [region] in cells. */
static void shape_head(const cfg_section &s, const network &net, layer *l)
{
	const long total = s.integer("num", 1, 1, 1000);
	const bool cells = l->kind == layer_kind::region;

	l->classes = s.integer("classes", 20, 1, MAX_FILTERS);
	for (double value : s.reals("anchors")) {
		const bool height = l->anchors.size() % 2;
		const double pixels = !cells ? 1 : height ? double(net.h) / l->h : double(net.w) / l->w;
		l->anchors.push_back(float(value * pixels));
	}
	if (l->anchors.size() != size_t(2 * total))
		s.fail("anchors", "want 2 numbers for each of the " + std::to_string(total) + " anchors of num");
	if (cells && (s.integer("coords", 4, 1, MAX_FILTERS) != 4 || s.integer("softmax", 0, 0, 1) != 1))
		s.fail("softmax", "want softmax=1 and coords=4");
	for (long value : s.integers("mask")) {
		if (value < 0 || value >= total)
			s.fail("mask", std::to_string(value) + " is not an anchor from 0 to " + std::to_string(total - 1));
		l->mask.push_back(int(value));
	}
	if (!s.has("mask"))
		for (int i = 0; i < total; i++)
			l->mask.push_back(i);
	const long want = long(l->mask.size()) * (l->classes + 5);
	if (l->c != want)
		s.fail("classes", "the layer before has " + std::to_string(l->c) + " channels, want (classes + 5) x " +
		                      std::to_string(l->mask.size()) + " anchors = " + std::to_string(want));
}

/* Kernels and cuBLAS index with 32 bits. */
static void require_indexable(const cfg_section &s, const layer &l, int batch)
{
	size_t most = std::max(l.inputs(), l.outputs()) * batch;

	if (l.kind == layer_kind::convolutional)
		most = std::max(most, l.columns());
	for (const bank &b : l.banks)
		most = std::max(most, b.weights());
	if (most > size_t(1) << 31)
		die(EXIT_INPUT, "%s:%d: [%s] needs an array of %zu values for a batch of %d, want at most 2^31",
		    s.file.c_str(), s.line, s.name.c_str(), most, batch);
}

static layer shape_layer(const cfg_section &s, const network &net)
{
	layer l = {};
	const bool first = net.layers.empty();

	l.kind = kind_of(s.name);
	l.line = s.line;
	l.w = first ? net.w : net.layers.back().out_w;
	l.h = first ? net.h : net.layers.back().out_h;
	l.c = first ? net.c : net.layers.back().out_c;
	l.out_w = l.w, l.out_h = l.h, l.out_c = l.c;
	l.groups = 1;
	switch (l.kind) {
	case layer_kind::convolutional: shape_convolutional(s, &l); break;
	case layer_kind::connected: shape_connected(s, &l); break;
	case layer_kind::rnn: shape_rnn(s, &l); break;
	case layer_kind::maxpool: shape_maxpool(s, &l); break;
	case layer_kind::avgpool: l.out_w = l.out_h = 1; break;
	case layer_kind::shortcut: shape_shortcut(s, net.layers, &l); break;
	case layer_kind::route: shape_route(s, net.layers, &l); break;
	case layer_kind::upsample:
		l.stride = s.integer("stride", 2, 1, 64);
		l.out_w *= l.stride;
		l.out_h *= l.stride;
		break;
	case layer_kind::reorg: shape_reorg(s, &l); break;
	case layer_kind::yolo:
	case layer_kind::region: shape_head(s, net, &l); break;
	case layer_kind::softmax:
		l.groups = s.integer("groups", 1, 1, MAX_FILTERS);
		if (l.inputs() % l.groups)
			s.fail("groups", "does not divide " + std::to_string(l.inputs()) + " values");
		l.temperature = s.real("temperature", 1);
		if (!(l.temperature > 0))
			s.fail("temperature", "want more than 0");
		break;
	case layer_kind::cost:
		if (s.text("type", "sse") != "sse")
			s.fail("type", "\"" + s.text("type", "") + "\" is unknown; known is sse");
		l.scale = s.real("scale", 1);
		break;
	case layer_kind::dropout:
		l.probability = s.real("probability", .5);
		if (!(l.probability >= 0 && l.probability < 1))
			s.fail("probability", "want from 0 to less than 1");
		l.scale = 1 / (1 - l.probability);
		break;
	}
	require_indexable(s, l, net.batch);
	return l;
}

static void read_rate(const cfg_section &s, network *net)
{
	const std::string policy = s.text("policy", "constant");

	net->momentum = s.real("momentum", .9);
	net->decay = s.real("decay", .0001);
	net->learning_rate = s.real("learning_rate", .001);
	net->power = s.real("power", 4);
	net->burn_in = s.integer("burn_in", 0, 0, 1000000000);
	net->max_batches = s.integer("max_batches", 0, 0, 1000000000);
	net->steps = s.integers("steps");
	net->scales = s.reals("scales");
	if (policy == "constant")
		net->policy = rate_policy::constant;
	else if (policy == "poly")
		net->policy = rate_policy::poly;
	else if (policy == "steps")
		net->policy = rate_policy::steps;
	else
		s.fail("policy", "\"" + policy + "\" is unknown; known are constant, poly, steps");
	if (net->steps.size() != net->scales.size())
		s.fail("scales", "want one for each of the " + std::to_string(net->steps.size()) + " steps");
}

static network read_net(const cfg_section &s)
{
	network net = {};
	const int batch = s.integer("batch", 1, 1, MAX_BATCH);

	net.file = s.file;
	net.subdivisions = s.integer("subdivisions", 1, 1, MAX_BATCH);
	if (batch % net.subdivisions)
		s.fail("subdivisions", "does not divide the batch of " + std::to_string(batch));
	net.batch = batch / net.subdivisions;
	if (s.integer("time_steps", 1, 1, MAX_BATCH) != 1)
		s.fail("time_steps", "want 1: networks with memory only generate here, one step at a time");
	if (s.has("inputs")) {
		net.w = net.h = 1;
		net.c = s.integer("inputs", 0, 1, MAX_FILTERS);
	} else {
		net.w = s.integer("width", 0, 1, MAX_SIDE);
		net.h = s.integer("height", 0, 1, MAX_SIDE);
		net.c = s.integer("channels", 0, 1, MAX_FILTERS);
	}
	if (!net.w || !net.h || !net.c)
		die(EXIT_INPUT, "%s:%d: [net] wants width, height and channels, or inputs", s.file.c_str(), s.line);
	read_rate(s, &net);
	net.max_crop = s.integer("max_crop", net.w * 2, 1, MAX_SIDE);
	net.min_crop = s.integer("min_crop", net.w, 1, MAX_SIDE);
	if (net.min_crop > net.max_crop)
		s.fail("min_crop", "is more than max_crop");
	net.angle = s.real("angle", 0);
	net.aspect = s.real("aspect", 1);
	net.saturation = s.real("saturation", 1);
	net.exposure = s.real("exposure", 1);
	net.hue = s.real("hue", 0);
	if (!(net.aspect > 0) || !(net.saturation > 0) || !(net.exposure > 0))
		s.fail("aspect", "want aspect, saturation and exposure above 0");
	return net;
}

network read_network(const std::string &path)
{
	const std::vector<cfg_section> sections = read_cfg(path);
	network net = read_net(sections[0]);

	for (size_t i = 1; i < sections.size(); i++)
		net.layers.push_back(shape_layer(sections[i], net));
	return net;
}

void require_trainable(const network &net)
{
	for (const layer &l : net.layers)
		if (l.kind == layer_kind::rnn || l.kind == layer_kind::reorg || l.is_head())
			die(EXIT_INPUT, "%s:%d: [%s] cannot be trained here, only used", net.file.c_str(), l.line,
			    kind_name(l.kind));
	const layer &last = net.layers.back();
	if (last.kind != layer_kind::softmax && last.kind != layer_kind::cost)
		die(EXIT_INPUT, "%s:%d: [%s] is the last layer; training wants [softmax] or [cost]", net.file.c_str(),
		    last.line, kind_name(last.kind));
	if (net.max_batches == 0)
		die(EXIT_INPUT, "%s: [net] wants max_batches, the number of updates, to train", net.file.c_str());
}

double rate_at(const network &net, long update)
{
	if (update < net.burn_in)
		return net.learning_rate * pow(double(update) / net.burn_in, net.power);
	switch (net.policy) {
	case rate_policy::constant: break;
	case rate_policy::poly:
		return net.learning_rate * pow(1 - double(update) / net.max_batches, net.power);
	case rate_policy::steps: {
		double rate = net.learning_rate;
		for (size_t i = 0; i < net.steps.size() && net.steps[i] <= update; i++)
			rate *= net.scales[i];
		return rate;
	}
	}
	return net.learning_rate;
}
