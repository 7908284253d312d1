/* synth: the generated programs of the dissertation on runtime support for CPU-GPU clusters (Table 3-3): iterations of phases, each with a copy to
 * the device, vector additions there, a copy back, work of the host, and communication between the ranks of the job. */
#include "node.h"
#include "ranks.h"

#include <algorithm>
#include <string>

static const about what = {"Phases of vector additions on the device, of N numbers, between which the ranks of the job communicate. Rounds: additions of a\n"
                           "phase; without --rounds as many as take --gpu-time seconds, measured at the start. Each of the\n"
                           "--iterations has as many phases as --per-iteration says.\n"
                           "--communication: none (default), barrier, broadcast, scatter-gather, all-to-all. --uneven LIST --by F: the GPU time of these\n"
                           "ranks is 1 + F times as long.",
                           "add", {1 << 10, 1 << 16, 1 << 20}, 1, 1L << 30, FULL, 1};

__global__ void add(const float *a, const float *b, float *c, size_t n, long rounds, span *ran)
{
	const stamped all(ran);

	for (long r = 0; r < rounds; r++)
		for (size_t i = first_item(); i < n; i += items_apart())
			c[i] = a[i] + b[i];
}
KERNEL(add);

/* A message of a rank in a phase has numbers that no other has. */
static std::vector<uint64_t> text(int rank, long phase, size_t bytes)
{
	std::vector<uint64_t> words(bytes / sizeof(uint64_t));
	for (size_t i = 0; i < words.size(); i++)
		words[i] = mixed((uint64_t)rank << 48 ^ phase << 24 ^ i);
	return words;
}

/* communication sends and checks what a phase communicates. Roots are of rank 0. Bytes are those of a whole message; ranks share
 * what is scattered, gathered or exchanged. */
class communication {
public:
	communication(ranks *of, const std::string &kind, size_t bytes, bool check)
		: of_(of), kind_(kind), part_(bytes / (kind == "broadcast" ? 1 : of->count) / sizeof(uint64_t) * sizeof(uint64_t)), check_(check)
	{
		if (kind != "none" && kind != "barrier" && kind != "broadcast" && kind != "scatter-gather" && kind != "all-to-all")
			die(EXIT_INPUT, "--communication is \"%s\", want none, barrier, broadcast, scatter-gather or all-to-all", kind.c_str());
	}

	void before(long phase)
	{
		if (kind_ == "scatter-gather")
			exchange(phase, true, false);
	}
	void after(long phase)
	{
		if (kind_ == "barrier")
			of_->barrier();
		if (kind_ == "broadcast")
			exchange(phase, true, false);
		if (kind_ == "scatter-gather")
			exchange(phase, false, true);
		if (kind_ == "all-to-all")
			exchange(phase, true, true);
	}
	long wrong = 0;

private:
	/* exchange has the root send to the others, these to the root, or with both all to all. */
	void exchange(long phase, bool out, bool in)
	{
		const auto goes = [&](int from, int to) { return from != to && ((out && in) || (out ? from : to) == 0); };
		const std::vector<uint64_t> mine = text(of_->own, phase, part_);
		std::vector<uint64_t> got(mine.size());
		for (int to = 0; to < of_->count; to++)
			if (goes(of_->own, to))
				of_->send(to, mine.data(), part_);
		for (int from = 0; from < of_->count; from++)
			if (goes(from, of_->own)) {
				of_->receive(from, got.data(), part_);
				wrong += check_ && got != text(from, phase, part_);
			}
	}

	ranks *of_;
	const std::string kind_;
	const size_t part_;
	const bool check_;
};

static bool is_listed(const std::string &list, int rank) { return ("," + list + ",").find("," + std::to_string(rank) + ",") != std::string::npos; }

int main(int argc, char **argv)
{
	double iterations = 200, phases = 1, gpu_time = 0.5, transfer = 100 << 10, message = 400 << 10, by = 0;
	const char *kind = "none", *uneven = "";
	node_program p(argc, argv, what, {{"--iterations", &iterations, 1, nullptr}, {"--per-iteration", &phases, 1, nullptr}, {"--gpu-time", &gpu_time, 0, nullptr},
	                                  {"--transfer", &transfer, 0, nullptr}, {"--message", &message, 0, nullptr}, {"--by", &by, -1, nullptr},
	                                  {"--communication", nullptr, 0, &kind}, {"--uneven", nullptr, 0, &uneven}});
	const size_t n = p.size, moved = std::min(n, (size_t)transfer / sizeof(float));
	const bool measures = p.rounds < 0;
	float *a = p.allocate<float>(n, "a"), *b = p.allocate<float>(n, "b"), *c = p.allocate<float>(n, "c");
	p.begin(1, 1);
	ranks job;
	job.meet((size_t)message);
	communication talk(&job, kind, (size_t)message, p.chosen.verify);
	std::vector<float> in = upload(a, n, unit);
	const std::vector<float> other = upload(b, n, [](size_t i) { return unit(~i); });
	p.phase("measuring");
	double fastest = 0;
	for (int tries = 0; measures && tries < 3;) {
		const double seconds = STEP(add, p, a, b, c, n, p.rounds);
		if (seconds < 0.01)
			p.rounds *= 2;
		else
			fastest = tries++ ? std::min(fastest, seconds) : seconds;
	}
	if (measures)
		p.rounds = std::max(1L, lround(p.rounds * gpu_time / fastest));
	const long rounds = std::max(1L, lround(p.rounds * (is_listed(uneven, job.own) ? 1 + by : 1)));
	p.phase("phases");
	for (long phase = 0; phase < (long)iterations * (long)phases; phase++) {
		talk.before(phase);
		for (size_t i = 0; i < moved; i++)
			in[i] = (float)unit((uint64_t)phase << 32 ^ i);
		copy_to_device(a, in.data(), moved * sizeof(float));
		STEP(add, p, a, b, c, n, rounds);
		const std::vector<float> got = download(c, moved);
		for (size_t i = 0; p.chosen.verify && i < moved; i++)
			talk.wrong += got[i] != in[i] + other[i];
		talk.after(phase);
	}
	p.phase("verify");
	if (p.chosen.verify)
		verify_report("sums and messages", talk.wrong, 0);
	return p.finish(c, n * sizeof *c);
}
