#include "boxes.h"

#include <math.h>

#include <algorithm>

void decode_head(const network &net, size_t head, const float *values, int image_w, int image_h, float threshold,
                 std::vector<box> *boxes)
{
	const layer &l = net.layers[head];
	const size_t plane = l.spatial();
	/* The part of the network's input that the image covers. */
	const float fit = std::min(float(net.w) / image_w, float(net.h) / image_h);
	const float used_w = image_w * fit / net.w, used_h = image_h * fit / net.h;

	for (size_t cell = 0; cell < plane; cell++) {
		for (size_t n = 0; n < l.mask.size(); n++) {
			const float *at = values + n * (l.classes + 5) * plane + cell;
			const float object = at[4 * plane];
			if (!(object > threshold))
				continue;
			const float x = (cell % l.out_w + at[0]) / l.out_w, y = (cell / l.out_w + at[plane]) / l.out_h;
			box found;
			found.x = (x - (1 - used_w) / 2) / used_w;
			found.y = (y - (1 - used_h) / 2) / used_h;
			found.w = expf(at[2 * plane]) * l.anchors[2 * l.mask[n]] / net.w / used_w;
			found.h = expf(at[3 * plane]) * l.anchors[2 * l.mask[n] + 1] / net.h / used_h;
			for (int k = 0; k < l.classes; k++) {
				const float chance = object * at[(5 + k) * plane];
				found.chances.push_back(chance > threshold ? chance : 0);
			}
			boxes->push_back(found);
		}
	}
}

static float shared(float a, float a_size, float b, float b_size)
{
	const float low = std::max(a - a_size / 2, b - b_size / 2), high = std::min(a + a_size / 2, b + b_size / 2);

	return std::max(high - low, 0.f);
}

float overlap(const box &a, const box &b)
{
	const float both = shared(a.x, a.w, b.x, b.w) * shared(a.y, a.h, b.y, b.h);

	return both / (a.w * a.h + b.w * b.h - both);
}

void suppress(std::vector<box> *boxes, float limit)
{
	const size_t classes = boxes->empty() ? 0 : boxes->front().chances.size();

	for (size_t k = 0; k < classes; k++) {
		std::vector<box *> order;
		for (box &b : *boxes)
			if (b.chances[k] > 0)
				order.push_back(&b);
		std::stable_sort(order.begin(), order.end(),
		                 [k](const box *a, const box *b) { return a->chances[k] > b->chances[k]; });
		for (size_t i = 0; i < order.size(); i++)
			for (size_t j = i + 1; order[i]->chances[k] > 0 && j < order.size(); j++)
				if (overlap(*order[i], *order[j]) > limit)
					order[j]->chances[k] = 0;
	}
}
