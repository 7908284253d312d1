/* nn: the 5 nearest of N places on a map (Rodinia's nn). A kernel writes the distance of each place from a target, in each
 * round from another one; the nearest are those of the last. Each thread of a second kernel keeps the nearest of its places, and
 * the host takes the nearest of these. */
#include "pilot.h"

#include <algorithm>

static const about what = {"The 5 nearest of N places.", "distances", {4000000, 40000000, 400000000}, 1000, 1L << 33, FULL, 10000};

enum { NEAREST = 5, SEARCHERS = 128 };

struct place {
	float latitude, longitude;
};
struct found {
	float distance;
	unsigned index;
};

/* Round r looks for what is near this place. Places are in [0, 90) x [0, 180). Five are near each of the targets. */
__host__ __device__ static place target(long r) { return place{(float)(10 + r % 8 * 10), (float)(20 + r % 8 * 20)}; }
__host__ __device__ static size_t planted(size_t n, int which) { return n / (8 * NEAREST) * which + 7; }

__host__ __device__ static place of(size_t n, size_t i)
{
	for (int t = 0; t < 8 * NEAREST; t++)
		if (i == planted(n, t))
			return place{target(t / NEAREST).latitude + 1e-4f * (t % NEAREST), target(t / NEAREST).longitude};
	return place{(float)(90 * unit(i)), (float)(180 * unit(~i))};
}

__host__ __device__ static float distance_of(place a, place b)
{
	const float x = a.latitude - b.latitude, y = a.longitude - b.longitude;
	return sqrtf(x * x + y * y);
}

__global__ void fill(place *places, size_t n)
{
	for (size_t i = first_item(); i < n; i += items_apart()) {
		places[i] = of(n, i);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(fill);

__global__ void distances(const place *places, float *distance, size_t n, long rounds)
{
	for (long r = 0; r < rounds; r++) {
		for (size_t i = first_item(); i < n; i += items_apart())
			distance[i] = distance_of(places[i], target(r));
		CASE_STOP_POINT();
	}
}
RESTARTABLE(distances);

__global__ void nearest(const float *distance, found *near, size_t n)
{
	found own[NEAREST];

	for (int k = 0; k < NEAREST; k++)
		own[k] = found{INFINITY, 0};
	for (size_t i = first_item(); i < n; i += items_apart()) {
		found here = {distance[i], (unsigned)i};
		for (int k = 0; k < NEAREST; k++)
			if (here.distance < own[k].distance) {
				const found farther = own[k];
				own[k] = here;
				here = farther;
			}
		CASE_STOP_POINT();
	}
	for (int k = 0; k < NEAREST; k++)
		near[first_item() * NEAREST + k] = own[k];
}
RESTARTABLE(nearest);

static void verify(const float *distance, const found *near, size_t n, long rounds)
{
	double error = 0, farther = 0;

	for (int sample = 0; sample < 2000; sample++) {
		const size_t i = mixed(sample) % n;
		keep_worst(&error, fabs(peek(distance + i) - distance_of(of(n, i), target(rounds - 1))));
	}
	for (int k = 0; k < NEAREST; k++) {
		const place last = target(rounds - 1), near_by = of(n, planted(n, (rounds - 1) % 8 * NEAREST + k));
		for (int before = 0; before < k; before++)
			keep_worst(&farther, near[before].index == near[k].index);
		keep_worst(&error, fabs(near[k].distance - distance_of(of(n, near[k].index), last)));
		keep_worst(&farther, fmax(0, near[k].distance - distance_of(near_by, last)));
	}
	verify_report("distances", error, 1e-4);
	verify_report("nearest places", farther, 1e-5);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const size_t n = p.size, candidates = SEARCHERS * SEARCHERS * NEAREST;
	place *places = p.allocate<place>(n, "places");
	float *distance = p.allocate<float>(n, "distances");
	found *near = p.allocate<found>(candidates, "candidates");
	p.begin(12.0 * n);
	LAUNCH(fill, p, places, n);
	p.phase("kernels");
	LAUNCH(distances, p, places, distance, n, p.rounds);
	LAUNCH_ON(nearest, SEARCHERS, SEARCHERS, distance, near, n);
	std::vector<found> all(candidates);
	copy_to_host(all.data(), near, candidates * sizeof *near);
	std::partial_sort(all.begin(), all.begin() + NEAREST, all.end(), [](found a, found b) {
		return a.distance != b.distance ? a.distance < b.distance : a.index < b.index;
	});
	for (int k = 0; k < NEAREST; k++)
		printf("place %u at %g\n", all[k].index, all[k].distance);
	p.phase("verify");
	if (p.chosen.verify)
		verify(distance, all.data(), n, p.rounds);
	return p.finish(distance, n * sizeof *distance);
}
