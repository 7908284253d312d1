#include "image.h"

#include "common/host.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>

#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#include "third_party/stb_image.h"
#pragma GCC diagnostic pop

enum { MAX_SIDE = 1 << 14, TILE = 8 };

/* parse_gen returns whether `name` is a gen: name, and its numbers. */
static bool parse_gen(const std::string &name, int *w, int *h, uint64_t *seed)
{
	unsigned long long number;
	int end = 0;

	if (name.compare(0, 4, "gen:"))
		return false;
	if (sscanf(name.c_str(), "gen:%5dx%5d:%llu%n", w, h, &number, &end) != 3 || size_t(end) != name.size() ||
	    *w < 1 || *h < 1 || *w > MAX_SIDE || *h > MAX_SIDE)
		die(EXIT_INPUT, "image \"%s\": want gen:WIDTHxHEIGHT:SEED, sides from 1 to %d", name.c_str(), MAX_SIDE);
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
		die(EXIT_INPUT, "image %s: %s", name.c_str(), strerror(errno));
	if (!S_ISREG(info.st_mode))
		die(EXIT_INPUT, "image %s is not a regular file", name.c_str());
}

image load_image(const std::string &name, int channels)
{
	int w, h, found;
	uint64_t seed;

	if (parse_gen(name, &w, &h, &seed))
		return synthetic_image(w, h, channels, seed, ~seed);
	check_image_name(name);
	if (channels != 1 && channels != 3)
		die(EXIT_INPUT, "image %s: the network wants %d channels; files give 1 or 3", name.c_str(), channels);
	unsigned char *pixels = stbi_load(name.c_str(), &w, &h, &found, channels);
	if (!pixels)
		die(EXIT_INPUT, "image %s: %s; want a PNG, JPEG or BMP file", name.c_str(), stbi_failure_reason());
	image loaded(w, h, channels);
	for (int k = 0; k < channels; k++)
		for (size_t i = 0; i < size_t(w) * h; i++)
			loaded.values[size_t(k) * w * h + i] = pixels[i * channels + k] / 255.f;
	stbi_image_free(pixels);
	return loaded;
}

image synthetic_image(int w, int h, int c, uint64_t pattern, uint64_t noise)
{
	image made(w, h, c);
	const uint64_t colours = hash64(pattern), dots = hash64(noise);

	for (int k = 0; k < c; k++) {
		/* One hash has the noise of 8 pixels, and one the colour of a tile. */
		for (int y = 0; y < h; y++) {
			float *row = made.row(k, y);
			for (int x0 = 0; x0 < w; x0 += TILE) {
				const uint64_t tile = (uint64_t(k) << 32 | uint64_t(y / TILE) << 16) + x0 / TILE;
				const float colour = float(hash64(colours + tile) >> 40) * (.75f / (1 << 24));
				uint64_t bits = hash64(dots + (uint64_t(k) << 48 | uint64_t(y) << 24) + x0);
				for (int x = x0; x < std::min(x0 + int(TILE), w); x++, bits >>= 8)
					row[x] = colour + float(bits & 255) * (.25f / 255);
			}
		}
	}
	return made;
}

/* sample interpolates between the four pixels around (x, y); outside the image
 * its border continues. */
static float sample(const image &from, int channel, float x, float y)
{
	x = std::min(std::max(x, 0.f), float(from.w - 1));
	y = std::min(std::max(y, 0.f), float(from.h - 1));
	const int left = int(x), top = int(y);
	const int right = std::min(left + 1, from.w - 1), bottom = std::min(top + 1, from.h - 1);
	const float dx = x - left, dy = y - top;
	const float *above = from.row(channel, top), *below = from.row(channel, bottom);

	return (1 - dy) * ((1 - dx) * above[left] + dx * above[right]) +
	       dy * ((1 - dx) * below[left] + dx * below[right]);
}

image letterbox(const image &from, int w, int h)
{
	if (from.w == w && from.h == h)
		return from;
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
	image boxed(w, h, from.c);
	std::fill(boxed.values.begin(), boxed.values.end(), .5f);
	for (int k = 0; k < from.c; k++)
		for (int y = 0; y < inner_h; y++)
			for (int x = 0; x < inner_w; x++)
				boxed.row(k, y0 + y)[x0 + x] = sample(from, k, x * x_step, y * y_step);
	return boxed;
}

/* change_colours turns the hue by `hue` of the circle and multiplies saturation
 * and value (A. R. Smith, SIGGRAPH 1978). */
static void change_colours(image *im, float hue, float saturation, float exposure)
{
	const size_t plane = size_t(im->w) * im->h;
	float *red = im->row(0, 0), *green = im->row(1, 0), *blue = im->row(2, 0);

	for (size_t i = 0; i < plane; i++) {
		const float r = red[i], g = green[i], b = blue[i];
		const float high = std::max(r, std::max(g, b)), spread = high - std::min(r, std::min(g, b));
		float sector = 0;
		if (spread > 0)
			sector = high == r ? (g - b) / spread : high == g ? 2 + (b - r) / spread : 4 + (r - g) / spread;
		sector += 6 * hue;
		sector -= 6 * std::floor(sector / 6);
		const float value = std::min(high * exposure, 1.f);
		const float s = high > 0 ? std::min(spread / high * saturation, 1.f) : 0;
		/* How far a colour is from its own sectors, as Smith's hexagon has it. */
		const auto channel = [&](float n) {
			const float k = std::fmod(n + sector, 6.f);
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

image augmented(const image &from, const network &net, uint64_t seed)
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
	image crop(net.w, net.h, net.c);

	for (int y = 0; y < net.h; y++) {
		for (int x = 0; x < net.w; x++) {
			const double u = ((mirror ? net.w - 1 - x : x) - (net.w - 1) / 2. + x_shift) / scale * aspect;
			const double v = (y - (net.h - 1) / 2. + y_shift) / scale;
			const float from_x = float(cos(turn) * u - sin(turn) * v + (from.w - 1) / 2.);
			const float from_y = float(sin(turn) * u + cos(turn) * v + (from.h - 1) / 2.);
			for (int k = 0; k < net.c; k++)
				crop.row(k, y)[x] = sample(from, k, from_x, from_y);
		}
	}
	const double hue = random.between(-net.hue, net.hue);
	const double saturation = random_scale(&random, net.saturation);
	const double exposure = random_scale(&random, net.exposure);
	if (net.c == 3 && (net.hue != 0 || net.saturation != 1 || net.exposure != 1))
		change_colours(&crop, float(hue), float(saturation), float(exposure));
	return crop;
}

/* Images in the made-up index. */
enum { SYNTHETIC_IMAGES = 50000 };

training_set::training_set(const cfg_section &data, const network &net, uint64_t seed) : net_(net), seed_(seed)
{
	const std::string train = data.text("train", ""), labels = data.text("labels", "");
	const long classes = data.integer("classes", 2, 1, 1 << 16);

	if (size_t(classes) != net.outputs())
		data.fail("classes", std::to_string(classes) + " classes, but " + net.file + " has " +
		                         std::to_string(net.outputs()) + " outputs");
	if (!read_lines(train, &paths_)) {
		fprintf(stderr, "%s: training images \"%s\": no such file: %d are made from seed %llu\n",
		        program_invocation_short_name, train.c_str(), int(SYNTHETIC_IMAGES), (unsigned long long)seed);
		return;
	}
	if (paths_.empty())
		die(EXIT_INPUT, "%s names no image", train.c_str());
	if (!read_lines(labels, &labels_))
		data.fail("labels", "\"" + labels + "\": no such file; the labels of " + train + " are needed");
	if (labels_.size() != size_t(classes))
		die(EXIT_INPUT, "%s has %zu labels, want %ld", labels.c_str(), labels_.size(), classes);
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
			die(EXIT_INPUT, "training image %s: its path has two labels, %s and %s", path.c_str(),
			    labels_[found].c_str(), labels_[i].c_str());
		found = i;
	}
	if (found == labels_.size())
		die(EXIT_INPUT, "training image %s: its path has none of the labels", path.c_str());
	return found;
}

void training_set::batch(uint64_t pass, float *images, float *truths) const
{
	const size_t classes = net_.outputs();

	std::fill(truths, truths + net_.batch * classes, 0.f);
	for (int b = 0; b < net_.batch; b++) {
		random_sequence random(seed_, pass * net_.batch + b);
		const size_t index = random.below(size());
		const size_t label = paths_.empty() ? index % classes : label_of(paths_[index]);
		const image whole = paths_.empty()
		                        ? synthetic_image(net_.max_crop, net_.max_crop, net_.c, hash64(seed_) + label, index)
		                        : load_image(paths_[index], net_.c);
		const image crop = augmented(whole, net_, random.bits());
		std::copy(crop.values.begin(), crop.values.end(), images + b * net_.inputs());
		truths[b * classes + label] = 1;
	}
}
