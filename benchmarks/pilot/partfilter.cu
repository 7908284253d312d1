/* partfilter: a particle filter follows a disc in a noisy video of 10 frames with N x N bytes (Rodinia's particlefilter). A round
 * is a pass over the video, with other random numbers. All particles of a frame are moved, weighed and drawn again. */
#include "pilot.h"

static const about what = {"A particle filter over a video of 10 frames with N x N pixels.", "weigh", {1024, 4096, 10240}, 128, 1 << 16,
                           FULL * 63 / 100, 2000};

enum { FRAMES = 10, PARTICLES = 4096, RADIUS = 5, BRIGHT = 228, DARK = 100, RIGHT = 1, DOWN = 2 };

__host__ __device__ static int centre_x(int n, int frame) { return n / 2 + RIGHT * frame; }
__host__ __device__ static int centre_y(int n, int frame) { return n / 2 + DOWN * frame; }

__host__ __device__ static unsigned char pixel(int n, int frame, int y, int x)
{
	const int dx = x - centre_x(n, frame), dy = y - centre_y(n, frame);
	const int noise = (int)(mixed(((uint64_t)frame * n + y) * n + x) % 11) - 5;

	return (unsigned char)((dx * dx + dy * dy <= RADIUS * RADIUS ? BRIGHT : DARK) + noise);
}

__global__ void render(unsigned char *video, int n)
{
	for (long row = blockIdx.x; row < (long)FRAMES * n; row += gridDim.x) {
		for (int x = threadIdx.x; x < n; x += blockDim.x)
			video[row * n + x] = pixel(n, (int)(row / n), (int)(row % n), x);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(render);

struct particles {
	double *x, *y;
};

/* from is where the particles were drawn in the frame before. */
__global__ void move(particles from, particles to, int n, int frame, uint64_t seed)
{
	for (size_t i = first_item(); i < PARTICLES; i += items_apart()) {
		const double x = frame == 0 ? centre_x(n, 0) : from.x[i] + RIGHT, y = frame == 0 ? centre_y(n, 0) : from.y[i] + DOWN;
		to.x[i] = x + 4 * unit(2 * (seed + i)) - 2;
		to.y[i] = y + 4 * unit(2 * (seed + i) + 1) - 2;
		CASE_STOP_POINT();
	}
}
RESTARTABLE(move);

/* A particle weighs more, the more of the pixels around it are bright. */
__global__ void weigh(const unsigned char *frame, particles at, double *weight, int n)
{
	for (size_t i = first_item(); i < PARTICLES; i += items_apart()) {
		double likelihood = 0;
		for (int dy = -RADIUS; dy <= RADIUS; dy++)
			for (int dx = -RADIUS; dx <= RADIUS; dx++) {
				const double seen = frame[(size_t)((int)rint(at.y[i]) + dy) * n + (int)rint(at.x[i]) + dx];
				if (dx * dx + dy * dy <= RADIUS * RADIUS)
					likelihood += (seen - DARK) * (seen - DARK) - (seen - BRIGHT) * (seen - BRIGHT);
			}
		weight[i] = exp(likelihood / 81 / 50);
		CASE_STOP_POINT();
	}
}
RESTARTABLE(weigh);

/* One block: the sums of the weights up to each particle, and the weighted mean of the places. */
__global__ void accumulate(particles at, const double *weight, double *sums, double *mean)
{
	__shared__ double of_threads[3][1024];
	const int t = threadIdx.x, each = PARTICLES / blockDim.x;
	double own[3] = {0, 0, 0};

	for (int i = t * each; i < (t + 1) * each; i++) {
		own[0] += weight[i];
		own[1] += weight[i] * at.x[i];
		own[2] += weight[i] * at.y[i];
	}
	for (int k = 0; k < 3; k++)
		of_threads[k][t] = own[k];
	__syncthreads();
	double before = 0, total[3] = {0, 0, 0};
	for (int other = 0; other < (int)blockDim.x; other++) {
		before += other < t ? of_threads[0][other] : 0;
		for (int k = 0; k < 3; k++)
			total[k] += of_threads[k][other];
	}
	for (int i = t * each; i < (t + 1) * each; i++)
		sums[i] = before += weight[i];
	if (t == 0) {
		mean[0] = total[1] / total[0];
		mean[1] = total[2] / total[0];
	}
}
RESTARTABLE(accumulate);

/* Particles are drawn by their weights, at equal distances. */
__global__ void draw(const double *sums, particles from, particles to, uint64_t seed)
{
	for (size_t i = first_item(); i < PARTICLES; i += items_apart()) {
		const double wanted = (i + unit(~seed)) / PARTICLES * sums[PARTICLES - 1];
		int low = 0, high = PARTICLES - 1;
		while (low < high) {
			const int middle = (low + high) / 2;
			if (sums[middle] < wanted)
				low = middle + 1;
			else
				high = middle;
		}
		to.x[i] = from.x[low];
		to.y[i] = from.y[low];
		CASE_STOP_POINT();
	}
}
RESTARTABLE(draw);

static void verify(const unsigned char *video, const double mean[FRAMES][2], int n)
{
	double off = 0, error = 0;

	for (int f = 0; f < FRAMES; f++)
		keep_worst(&off, hypot(mean[f][0] - centre_x(n, f), mean[f][1] - centre_y(n, f)));
	for (int sample = 0; sample < 2000; sample++) {
		const int f = sample % FRAMES, y = mixed(sample) % n, x = mixed(~sample) % n;
		keep_worst(&error, abs(peek(video + ((size_t)f * n + y) * n + x) - pixel(n, f, y, x)));
	}
	verify_report("places", off, 1);
	verify_report("pixels", error, 0);
}

int main(int argc, char **argv)
{
	program p(argc, argv, what);
	const int n = (int)p.size;
	const size_t frame = (size_t)n * n;
	unsigned char *video = p.allocate<unsigned char>(FRAMES * frame, "video");
	const particles drawn = {p.allocate<double>(PARTICLES, "x"), p.allocate<double>(PARTICLES, "y")};
	const particles moved = {p.allocate<double>(PARTICLES, "moved x"), p.allocate<double>(PARTICLES, "moved y")};
	double *weight = p.allocate<double>(PARTICLES, "weights");
	double *sums = p.allocate<double>(PARTICLES, "sums of weights");
	double *means = p.allocate<double>(2 * FRAMES, "means");
	p.begin(1e9);
	LAUNCH(render, p, video, n);
	p.phase("kernels");
	for (long r = 0; r < p.rounds; r++)
		for (int f = 0; f < FRAMES; f++) {
			const uint64_t seed = (uint64_t)(r * FRAMES + f) * PARTICLES;
			LAUNCH(move, p, drawn, moved, n, f, seed);
			LAUNCH(weigh, p, video + f * frame, moved, weight, n);
			LAUNCH_ON(accumulate, 1, p.threads, moved, weight, sums, means + 2 * f);
			LAUNCH(draw, p, sums, moved, drawn, seed);
		}
	double mean[FRAMES][2];
	copy_to_host(mean, means, sizeof mean);
	for (int f = 0; f < FRAMES; f++)
		printf("frame %d: %.3f %.3f\n", f, mean[f][0], mean[f][1]);
	p.phase("verify");
	if (p.chosen.verify)
		verify(video, mean, n);
	return p.finish(means, sizeof mean);
}
