/* crowd: by how much host phases slow each other when many processes are in one at the same
 * time. README.md says what is measured, and how the numbers at the end follow from it. */
#include "common/host.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

static const char usage[] =
	"usage: crowd [REPETITIONS [CORES]]\n"
	"Runs 1, 2, 4, ... CORES copies of a host phase at once, REPETITIONS times (3), and prints\n"
	"how much longer each takes than alone, as JSON lines. CORES are those of this machine.\n";

/* A phase's sizes make one pass of it take some 0.2 s, and are larger than a core's share of
 * the last cache. Each pass allocates its memory anew, as a process does. */

/* rows is how backprop makes and flattens its network: rows of 17 weights, one allocation each,
 * filled with random numbers. */
enum { ROWS = 500000, ROW = 17 };

static double rows()
{
	float **weights[2], *flat[2], sum = 0;

	srand(7);
	for (float **&table : weights) {
		table = host_alloc<float *>(ROWS, "table");
		for (long i = 0; i < ROWS; i++)
			table[i] = host_alloc<float>(ROW, "row");
	}
	for (long i = 0; i < ROWS; i++)
		for (int j = 0; j < ROW; j++)
			weights[0][i][j] = (float)(rand() / (RAND_MAX + 1.0));
	for (long i = 0; i < ROWS; i++)
		memset(weights[1][i], 0, ROW * sizeof(float));
	for (int k = 0; k < 2; k++) {
		flat[k] = host_alloc<float>((size_t)ROWS * ROW, "flat weights");
		for (long i = 0; i < ROWS; i++)
			for (int j = 0; j < ROW; j++)
				flat[k][i * ROW + j] = weights[k][i][j];
	}
	for (long i = 0; i < (long)ROWS * ROW; i++)
		sum += flat[0][i] - flat[1][i];
	for (int k = 0; k < 2; k++) {
		for (long i = 0; i < ROWS; i++)
			free(weights[k][i]);
		free(weights[k]);
		free(flat[k]);
	}
	return sum;
}

static double rows_want()
{
	float sum = 0;

	srand(7);
	for (long i = 0; i < (long)ROWS * ROW; i++)
		sum += (float)(rand() / (RAND_MAX + 1.0));
	return sum;
}

/* numbers is how lavaMD makes its particles: arrays of random tenths, and zeros for the result. */
enum { PARTICLES = 3000000 };

static double tenth()
{
	return (rand() % 10 + 1) / 10.0;
}

static double numbers()
{
	struct vector4 {
		double v, x, y, z;
	};
	vector4 *position = host_alloc<vector4>(PARTICLES, "positions");
	double *charge = host_alloc<double>(PARTICLES, "charges"), sum = 0;
	vector4 *force = host_alloc<vector4>(PARTICLES, "forces");

	srand(7);
	for (long i = 0; i < PARTICLES; i++) {
		position[i].v = tenth();
		position[i].x = tenth();
		position[i].y = tenth();
		position[i].z = tenth();
	}
	for (long i = 0; i < PARTICLES; i++)
		charge[i] = tenth();
	for (long i = 0; i < PARTICLES; i++)
		force[i] = vector4{0, 0, 0, 0};
	for (long i = 0; i < PARTICLES; i++)
		sum += round(10 * (position[i].v + position[i].x + position[i].y + position[i].z + charge[i] + force[i].v));
	free(position);
	free(charge);
	free(force);
	return sum;
}

static double numbers_want()
{
	double sum = 0;

	srand(7);
	for (long i = 0; i < 5L * PARTICLES; i++)
		sum += rand() % 10 + 1;
	return sum;
}

/* text is how srad_v1 writes its image, which is stored by columns: pixels as text, row by row.
 * The columns are as far apart as in an image of 20000 x 20000 pixels. Only its first rows are used. */
enum { COLUMNS = 20000, COLUMN = 20000, TEXT_ROWS = 160, GRAYS = 255 };

static double text()
{
	float *image = host_alloc<float>((size_t)COLUMNS * COLUMN, "image");
	FILE *file = open_output(nullptr);
	double written = 0;

	for (size_t column = 0; column < COLUMNS; column++)
		for (size_t row = 0; row < TEXT_ROWS; row++)
			image[column * COLUMN + row] = (column + row) % (GRAYS + 1);
	for (size_t row = 0; row < TEXT_ROWS; row++)
		for (size_t column = 0; column < COLUMNS; column++)
			written += fprintf(file, "%d ", (int)image[column * COLUMN + row]);
	close_output(file, nullptr);
	free(image);
	return written;
}

static double text_want()
{
	double written = 0;

	for (size_t row = 0; row < TEXT_ROWS; row++)
		for (size_t column = 0; column < COLUMNS; column++) {
			size_t gray = (column + row) % (GRAYS + 1);
			written += gray < 10 ? 2 : gray < 100 ? 3 : 4;
		}
	return written;
}

struct phase {
	const char *name;
	double (*pass)();
	double (*want)(); /* what a pass returns, found without the phase's memory */
};

static const phase phases[] = {{"rows", rows, rows_want}, {"numbers", numbers, numbers_want}, {"text", text, text_want}};
enum { PHASES = sizeof phases / sizeof phases[0], MEASURED = 3, MAX_COPIES = 1024 };

static double now_s()
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

/* What the copies share. */
struct board {
	pthread_barrier_t begin;
	std::atomic<int> measured;
	double seconds[MAX_COPIES]; /* of a pass, by copy */
};

/* copy_of runs passes: one that is not measured, those that are, and more until all copies have
 * been measured, so that none is measured in a smaller crowd. */
static void copy_of(const phase &p, double want, board *shared, int number, int copies)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* copies wait for one another */
	bool right = p.pass() == want;

	pthread_barrier_wait(&shared->begin);
	const double begin = now_s();
	for (int i = 0; i < MEASURED; i++)
		right = p.pass() == want && right;
	shared->seconds[number] = (now_s() - begin) / MEASURED;
	shared->measured++;
	while (shared->measured < copies)
		right = p.pass() == want && right;
	_exit(right ? EXIT_OK : EXIT_MISMATCH);
}

/* measure returns how long a pass takes with so many copies at once, in seconds: their mean. */
static double measure(const phase &p, double want, board *shared, int copies)
{
	pthread_barrierattr_t attributes;
	double sum = 0;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->begin, &attributes, copies);
	shared->measured = 0;
	fflush(stdout);
	for (int i = 0; i < copies; i++) {
		pid_t child = fork();
		if (child < 0)
			die(EXIT_INPUT, "cannot start a copy: %s", strerror(errno));
		if (child == 0)
			copy_of(p, want, shared, i, copies);
	}
	for (int i = 0; i < copies; i++) {
		int status;
		if (wait(&status) < 0)
			die(EXIT_INPUT, "cannot wait for a copy: %s", strerror(errno));
		if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_MISMATCH)
			die(EXIT_MISMATCH, "a copy of %s got a wrong result", p.name);
		if (status)
			die(EXIT_INPUT, "a copy of %s ended with status %#x", p.name, status);
	}
	for (int i = 0; i < copies; i++)
		sum += shared->seconds[i];
	return sum / copies;
}

static double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	const size_t half = values.size() / 2;
	return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/* A crowd of copies, and how many times as long as alone a phase takes in it: the phases' mean. */
struct point {
	int copies;
	double slowdown;
};

/* A model of the slowdown: it grows with the cores in use until the host is saturated. From there on all copies together get
 * no more done. */
struct model {
	int saturated_at;
	double cost; /* where it is saturated */

	double share(int copies) const { return copies < saturated_at ? (copies - 1.0) / (saturated_at - 1) : (double)copies / saturated_at; }
	double without_cost(int copies) const { return fmax(1, (double)copies / saturated_at); }
	double slowdown(int copies) const { return without_cost(copies) + cost * share(copies); }
};

/* fit prints the model that has the least squares of the errors. */
static void fit(const std::vector<point> &points, int cores)
{
	model best = {};
	double least = INFINITY, error = 0;

	for (int saturated_at = 2; saturated_at <= cores; saturated_at++) {
		model m = {saturated_at, 0};
		double above = 0, below = 0, squares = 0;
		for (const point &p : points) {
			above += m.share(p.copies) * (p.slowdown - m.without_cost(p.copies));
			below += m.share(p.copies) * m.share(p.copies);
		}
		m.cost = fmax(0, above / below);
		for (const point &p : points)
			squares += pow(m.slowdown(p.copies) - p.slowdown, 2);
		if (squares < least)
			least = squares, best = m;
	}
	for (const point &p : points)
		keep_worst(&error, fabs(best.slowdown(p.copies) / p.slowdown - 1));
	printf("{\"cores\": %d, \"saturated_at\": %d, \"cost\": %.3f, \"largest_error\": %.3f}\n", cores, best.saturated_at, best.cost, error);
}

int main(int argc, char **argv)
{
	cpu_set_t allowed;

	if (argc > 3 || (argc > 1 && argv[1][0] == '-')) {
		fputs(usage, stderr);
		return EXIT_INPUT;
	}
	const int repetitions = argc > 1 ? parse_int(argv[1], "REPETITIONS", 1, 1000) : 3;
	if (sched_getaffinity(0, sizeof allowed, &allowed))
		die(EXIT_INPUT, "cannot find out how many cores there are");
	const int cores = argc > 2 ? parse_int(argv[2], "CORES", 2, MAX_COPIES) : CPU_COUNT(&allowed);
	if (cores < 2 || cores > MAX_COPIES)
		die(EXIT_INPUT, "this machine has %d cores, want 2 to %d", cores, MAX_COPIES);
	std::vector<int> crowds;
	for (int n = 1; n < cores; n *= 2)
		crowds.push_back(n);
	crowds.push_back(cores);
	void *memory = mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		die(EXIT_INPUT, "no shared memory");
	board *shared = new (memory) board;

	std::vector<double> seconds[PHASES][MAX_COPIES + 1];
	double want[PHASES];
	for (int p = 0; p < PHASES; p++) {
		want[p] = phases[p].want();
		measure(phases[p], want[p], shared, cores); /* a machine's first use of memory is slow */
	}
	for (int r = 0; r < repetitions; r++)
		for (int p = 0; p < PHASES; p++)
			for (int n : crowds)
				seconds[p][n].push_back(measure(phases[p], want[p], shared, n));
	std::vector<point> points;
	for (int n : crowds) {
		double sum = 0;
		for (int p = 0; p < PHASES; p++) {
			const double alone = median(seconds[p][1]), crowded = median(seconds[p][n]);
			printf("{\"phase\": \"%s\", \"copies\": %d, \"seconds\": %.4f, \"slowdown\": %.3f}\n", phases[p].name, n, crowded,
			       crowded / alone);
			sum += crowded / alone;
		}
		points.push_back(point{n, sum / PHASES});
	}
	fit(points, cores);
	return EXIT_OK;
}
