#include "image.h"

#include "common/host.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <stdexcept>

enum { MAX_SIDE = 1 << 14, TILE = 8 };

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS MAX_SIDE
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb_image.h>

[[noreturn]] static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
{
	char message[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(message, sizeof message, format, arguments);
	va_end(arguments);
	throw std::runtime_error(message);
}

/* parse_gen returns whether `name` is a gen: name, and sets its numbers. */
static bool parse_gen(const std::string &name, int *w, int *h, uint64_t *seed)
{
	unsigned long long number;
	int end = 0;

	if (name.compare(0, 4, "gen:"))
		return false;
	if (sscanf(name.c_str(), "gen:%5dx%5d:%llu%n", w, h, &number, &end) != 3 || size_t(end) != name.size() ||
	    *w < 1 || *h < 1 || *w > MAX_SIDE || *h > MAX_SIDE)
		fail("image \"%s\": want gen:WIDTHxHEIGHT:SEED, sides from 1 to %d", name.c_str(), MAX_SIDE);
	*seed = number;
	return true;
}

void check_image_name(const std::string &name)
{
	int w, h;
	uint64_t seed;
	struct stat info;

	if (parse_gen(name, &w, &h, &seed))
		return;
	if (stat(name.c_str(), &info))
		fail("image %s: %s", name.c_str(), strerror(errno));
	if (!S_ISREG(info.st_mode))
		fail("image %s is not a regular file", name.c_str());
}

void image::reshape(int width, int height, int channels)
{
	w = width;
	h = height;
	c = channels;
	values.resize(size_t(w) * h * c);
}

void load_image(const std::string &name, int channels, image *to)
{
	int w, h, found;
	uint64_t seed;

	if (parse_gen(name, &w, &h, &seed)) {
		synthesize(w, h, channels, seed, ~seed, to);
		return;
	}
	check_image_name(name);
	if (channels != 1 && channels != 3)
		fail("image %s: the network wants %d channels; files give 1 or 3", name.c_str(), channels);
	unsigned char *pixels = stbi_load(name.c_str(), &w, &h, &found, channels);
	if (!pixels)
		fail("image %s: %s; want a PNG, JPEG or BMP file", name.c_str(), stbi_failure_reason());
	to->reshape(w, h, channels);
	for (int k = 0; k < channels; k++)
		for (size_t i = 0; i < size_t(w) * h; i++)
			to->values[size_t(k) * w * h + i] = pixels[i * channels + k] / 255.f;
	stbi_image_free(pixels);
}

namespace {

/* Dots of noise from 0 to 0.25. Each row of an image uses a piece of them, so that noise
 * costs one addition for each value. */
struct noise_dots {
	enum { COUNT = 1 << 12 };
	float value[COUNT + TILE];

	noise_dots()
	{
		for (int i = 0; i < COUNT + TILE; i++)
			value[i] = float(hash64(i % COUNT) >> 40) * (.25f / (1 << 24));
	}
};

} // namespace

void synthesize(int w, int h, int c, uint64_t pattern, uint64_t noise, image *to)
{
	static const noise_dots dots;
	const uint64_t colours = hash64(pattern), places = hash64(noise);

	to->reshape(w, h, c);
	for (int k = 0; k < c; k++) {
		for (int y = 0; y < h; y++) {
			float *row = to->row(k, y);
			const uint64_t tiles = colours + (uint64_t(k) << 32 | uint64_t(y / TILE) << 16);
			const uint64_t place = hash64(places + (uint64_t(k) << 32 | uint64_t(y)));
			for (int x0 = 0; x0 < w; x0 += TILE) {
				const float colour = float(int(hash64(tiles + x0 / TILE) >> 40)) * (.75f / (1 << 24));
				const float *dot = &dots.value[(place + x0) % noise_dots::COUNT];
				const int width = std::min(int(TILE), w - x0);
				for (int x = 0; x < width; x++)
					row[x0 + x] = colour + dot[x];
			}
		}
	}
}

void letterbox(const image &from, int w, int h, float *to)
{
	if (from.w == w && from.h == h) {
		std::copy(from.values.begin(), from.values.end(), to);
		return;
	}
	int inner_w = w, inner_h = int(int64_t(from.h) * w / from.w);
	if (inner_h > h) {
		inner_h = h;
		inner_w = int(int64_t(from.w) * h / from.h);
	}
	inner_w = std::max(inner_w, 1);
	inner_h = std::max(inner_h, 1);
	const int x0 = (w - inner_w) / 2, y0 = (h - inner_h) / 2;
	const float x_step = inner_w > 1 ? float(from.w - 1) / (inner_w - 1) : 0;
	const float y_step = inner_h > 1 ? float(from.h - 1) / (inner_h - 1) : 0;
	std::vector<int> left(inner_w);
	std::vector<float> right_share(inner_w), line(from.w + 1);
	for (int x = 0; x < inner_w; x++) {
		left[x] = std::min(int(x * x_step), from.w - 1);
		right_share[x] = x * x_step - left[x];
	}
	std::fill(to, to + size_t(from.c) * w * h, .5f);
	for (int k = 0; k < from.c; k++) {
		for (int y = 0; y < inner_h; y++) {
			const int top = std::min(int(y * y_step), from.h - 1);
			const float below_share = y * y_step - top;
			const float *above = from.row(k, top), *below = from.row(k, std::min(top + 1, from.h - 1));
			float *out = to + (size_t(k) * h + y0 + y) * w + x0;
			for (int x = 0; x < from.w; x++)
				line[x] = above[x] + below_share * (below[x] - above[x]);
			line[from.w] = line[from.w - 1];
			for (int x = 0; x < inner_w; x++)
				out[x] = line[left[x]] + right_share[x] * (line[left[x] + 1] - line[left[x]]);
		}
	}
}

/* sample interpolates between the four pixels around (x, y) in all channels. Outside the
 * image it repeats the border. Channels of `to` are `plane` apart. */
static void sample(const image &from, float x, float y, size_t plane, float *to)
{
	x = std::min(std::max(x, 0.f), float(from.w - 1));
	y = std::min(std::max(y, 0.f), float(from.h - 1));
	const int left = int(x), top = int(y);
	const int right = std::min(left + 1, from.w - 1), bottom = std::min(top + 1, from.h - 1);
	const float dx = x - left, dy = y - top;

	for (int k = 0; k < from.c; k++) {
		const float *above = from.row(k, top), *below = from.row(k, bottom);
		to[k * plane] = (1 - dy) * ((1 - dx) * above[left] + dx * above[right]) +
		                dy * ((1 - dx) * below[left] + dx * below[right]);
	}
}

/* change_colours turns the hue by `hue` of the circle and multiplies saturation
 * and value (A. R. Smith, SIGGRAPH 1978). */
static void change_colours(size_t plane, float hue, float saturation, float exposure, float *values)
{
	float *red = values, *green = values + plane, *blue = values + 2 * plane;

	for (size_t i = 0; i < plane; i++) {
		const float r = red[i], g = green[i], b = blue[i];
		const float high = std::max(r, std::max(g, b)), spread = high - std::min(r, std::min(g, b));
		float sector = 0;
		if (spread > 0)
			sector = high == r ? (g - b) / spread : high == g ? 2 + (b - r) / spread : 4 + (r - g) / spread;
		sector += 6 * hue;
		sector -= 6 * float(int(sector / 6));
		sector += sector < 0 ? 6 : 0;
		const float value = std::min(high * exposure, 1.f);
		const float s = high > 0 ? std::min(spread / high * saturation, 1.f) : 0;
		/* The distance of a colour from its own sectors in Smith's hexagon. */
		const auto channel = [&](float n) {
			const float k = n + sector < 6 ? n + sector : n + sector - 6;
			return value - value * s * std::max(0.f, std::min(std::min(k, 4 - k), 1.f));
		};
		red[i] = channel(5);
		green[i] = channel(3);
		blue[i] = channel(1);
	}
}

/* A factor between 1 and s, or its inverse. */
static double random_scale(random_sequence *random, double s)
{
	const double scale = random->between(1, s);

	return random->below(2) ? scale : 1 / scale;
}

void augment(const image &from, const network &net, uint64_t seed, float *to)
{
	random_sequence random(seed, 0);
	const double shorter = net.min_crop + double(random.below(net.max_crop - net.min_crop + 1));
	const double scale = shorter / std::min(from.w, from.h);
	const double aspect = random_scale(&random, net.aspect);
	const double turn = random.between(-net.angle, net.angle) * M_PI / 180;
	const double x_room = std::max(0., (from.w * scale / aspect - net.w) / 2);
	const double y_room = std::max(0., (from.h * scale - net.h) / 2);
	const double x_shift = random.between(-x_room, x_room), y_shift = random.between(-y_room, y_room);
	const bool mirror = random.below(2);
	const float cosine = float(cos(turn)), sine = float(sin(turn));
	const float x_unit = float(aspect / scale), y_unit = float(1 / scale);
	const size_t plane = size_t(net.w) * net.h;

	for (int y = 0; y < net.h; y++) {
		const float v = (y - (net.h - 1) / 2.f + float(y_shift)) * y_unit;
		for (int x = 0; x < net.w; x++) {
			const float u = ((mirror ? net.w - 1 - x : x) - (net.w - 1) / 2.f + float(x_shift)) * x_unit;
			sample(from, cosine * u - sine * v + (from.w - 1) / 2.f, sine * u + cosine * v + (from.h - 1) / 2.f,
			       plane, to + size_t(y) * net.w + x);
		}
	}
	const double hue = random.between(-net.hue, net.hue);
	const double saturation = random_scale(&random, net.saturation);
	const double exposure = random_scale(&random, net.exposure);
	if (net.c == 3 && (net.hue != 0 || net.saturation != 1 || net.exposure != 1))
		change_colours(plane, float(hue), float(saturation), float(exposure), to);
}

/* The number of images in the made-up index. */
enum { SYNTHETIC_IMAGES = 50000 };

training_set::training_set(const cfg_section &data, const network &net, uint64_t seed) : net_(net), seed_(seed)
{
	const std::string train = data.text("train", ""), labels = data.text("labels", "");

	if (!read_lines(train, &paths_)) {
		fprintf(stderr, "%s: training images \"%s\": no such file: %d are made from seed %llu\n",
		        program_invocation_short_name, train.c_str(), int(SYNTHETIC_IMAGES), (unsigned long long)seed);
		return;
	}
	if (paths_.empty())
		die(EXIT_INPUT, "%s names no image", train.c_str());
	if (!read_lines(labels, &labels_))
		data.fail("labels", "\"" + labels + "\": no such file; the labels of " + train + " are needed");
	if (labels_.size() != net.outputs())
		die(EXIT_INPUT, "%s has %zu labels, want %zu", labels.c_str(), labels_.size(), net.outputs());
}

size_t training_set::size() const
{
	return paths_.empty() ? size_t(SYNTHETIC_IMAGES) : paths_.size();
}

size_t training_set::label_of(const std::string &path) const
{
	size_t found = labels_.size();

	for (size_t i = 0; i < labels_.size(); i++) {
		if (path.find(labels_[i]) == std::string::npos)
			continue;
		if (found != labels_.size())
			fail("training image %s: its path has two labels, %s and %s", path.c_str(),
			    labels_[found].c_str(), labels_[i].c_str());
		found = i;
	}
	if (found == labels_.size())
		fail("training image %s: its path has none of the labels", path.c_str());
	return found;
}

void training_set::batch(uint64_t pass, float *images, float *truths) const
{
	const size_t classes = net_.outputs();
	image whole;

	std::fill(truths, truths + net_.batch * classes, 0.f);
	for (int b = 0; b < net_.batch; b++) {
		random_sequence random(seed_, pass * net_.batch + b);
		const size_t index = random.below(size());
		const size_t label = paths_.empty() ? index % classes : label_of(paths_[index]);
		if (paths_.empty())
			synthesize(net_.max_crop, net_.max_crop, net_.c, hash64(seed_) + label, index, &whole);
		else
			load_image(paths_[index], net_.c, &whole);
		augment(whole, net_, random.bits(), images + b * net_.inputs());
		truths[b * classes + label] = 1;
	}
}
