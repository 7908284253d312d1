/* bs: prices of European options by Black and Scholes, in 256 launches. Each has another interest rate. */
#include "node.h"

static const about what = {"Prices of N options.", "price", {40000, 4000000, 40000000}, 1, 1L << 32, FULL, 1000000};

struct option {
	float price, strike, years;
};

struct sums {
	float calls, puts;
};

template <class T> __host__ __device__ static T normal(T x) { return (T)0.5 * erfc(-x * (T)0.70710678118654752); }

template <class T> __host__ __device__ static void value_of(const option &o, T rate, T *call, T *put)
{
	const T volatility = (T)0.3, spread = volatility * sqrt((T)o.years);
	const T d = (log((T)o.price / o.strike) + (rate + volatility * volatility / 2) * o.years) / spread;
	const T due = o.strike * exp(-rate * o.years);

	*call = o.price * normal(d) - due * normal(d - spread);
	*put = due * normal(spread - d) - o.price * normal(-d);
}

__host__ __device__ static float rate_of(int launch) { return 0.01f + 0.0002f * launch; }

/* Sums of the launches so far are in before, and those with this one in after. */
__global__ void price(const option *options, const sums *before, sums *after, size_t n, int launch, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t i = first_item(); i < n; i += items_apart()) {
			float call, put;
			value_of(options[i], rate_of(launch), &call, &put);
			after[i] = sums{before[i].calls + call, before[i].puts + put};
		}
}
KERNEL(price);

int main(int argc, char **argv)
{
	node_program p(argc, argv, what);
	const int launches = p.times(256);
	const size_t n = p.size;
	option *options = p.allocate<option>(n, "options");
	sums *of[2] = {p.allocate<sums>(n, "sums"), p.allocate<sums>(n, "sums")};
	p.begin(launches, 28.0 * n);
	const std::vector<option> chosen = upload(options, n, [](size_t i) {
		return option{5 + 25 * (float)unit(3 * i), 1 + 99 * (float)unit(3 * i + 1), 0.25f + 9.75f * (float)unit(3 * i + 2)};
	});
	GPU(cudaMemset(of[0], 0, n * sizeof(sums)));
	p.phase("kernels");
	for (int l = 0; l < launches; l++)
		STEP(price, p, options, of[l % 2], of[(l + 1) % 2], n, l, p.rounds);
	p.phase("verify");
	for (int sample = 0; p.chosen.verify && sample < 1000; sample++) {
		const size_t i = mixed(sample) % n;
		double error = 0, calls = 0, puts = 0, call, put;
		for (int l = 0; l < launches; l++) {
			value_of<double>(chosen[i], rate_of(l), &call, &put);
			calls += call;
			puts += put;
		}
		const sums got = peek(of[launches % 2] + i);
		keep_worst(&error, relative_error(got.calls, calls, launches));
		keep_worst(&error, relative_error(got.puts, puts, launches));
		if (sample == 999 || error > 1e-4)
			verify_report("prices", error, 1e-4);
	}
	return p.finish(of[launches % 2], n * sizeof(sums));
}
