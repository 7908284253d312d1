/* adfa: in each iteration each rank takes the next DFA of a queue and compresses it with default transitions. The root gathers what they become.
 *
 * The default of a state is the state of less depth that has most transitions in common with it, and among such the one with the lowest number. Only
 * the transitions that differ from the default's are kept. Depth decreases along defaults, so a text of so many letters takes at most twice as
 * many steps (Becchi and Crowley). States are numbered by depth. */
#include "cluster.h"

static const about what = {"Compression of a DFA of N states and 256 letters by each rank of the job in each of the --iterations. Rounds: how often all states are\n"
                           "compared.",
                           "compare", {200, 3000, 30000}, 1, 1L << 20, FULL, 1280};

enum { LETTERS = 256, CHANGED = 5, GROUP = 8, SHIFT = 24, SAMPLE = 64 };
static const uint32_t STATES = (1u << SHIFT) - 1, NONE = ~0u; /* STATES is a mask, too */

/* A DFA goes from state s with the letter c to next[s * LETTERS + c]. shallower[s] is how many states have less depth than s: they have the numbers below it. */
struct dfa {
	std::vector<uint32_t> next, shallower;
};

/* generated is the DFA of that number. It searches for words, as that of Aho and Corasick does: a state goes where the state of its longest suffix goes,
 * unless a word continues. Some transitions of each state are then changed at random, so that they lead to no greater depth. */
static dfa generated(uint64_t number, size_t states)
{
	dfa of{std::vector<uint32_t>(states * LETTERS), std::vector<uint32_t>(states)};
	std::vector<uint32_t> parent(states), suffix(states);
	std::vector<uint8_t> letter(states);
	const auto drawn = [&](size_t s, int what) { return mixed(number << 40 ^ s << 8 ^ what); };

	for (size_t s = 1; s < states; s++) { /* a state has two children on average, of distinct letters */
		const bool sibling = s > 1 && drawn(s, 0) % 2;
		parent[s] = s == 1 ? 0 : parent[s - 1] + !sibling;
		letter[s] = sibling ? letter[s - 1] + 37 : drawn(s, 1);
		of.shallower[s] = parent[s] >= of.shallower[s - 1] ? s : of.shallower[s - 1];
	}
	for (size_t s = 0, child = 1; s < states; s++) {
		uint32_t *const row = &of.next[s * LETTERS];
		if (s > 0) {
			suffix[s] = parent[s] == 0 ? 0 : of.next[(size_t)suffix[parent[s]] * LETTERS + letter[s]];
			memcpy(row, &of.next[(size_t)suffix[s] * LETTERS], LETTERS * sizeof *row);
		}
		for (int i = 0; i < CHANGED; i++)
			row[drawn(s, 2 * i + 2) % LETTERS] = drawn(s, 2 * i + 3) % (s + 1);
		for (; child < states && parent[child] == s; child++)
			row[letter[child]] = child;
	}
	return of;
}

/* A choice of a default is a number: the transitions in common, and then how low the default's number is. The best choice is the greatest; 0 is none. */
__host__ __device__ static unsigned long long choice(unsigned common, size_t state) { return (unsigned long long)common << SHIFT | (STATES - (uint32_t)state); }
__host__ __device__ static unsigned common_of(unsigned long long best) { return (unsigned)(best >> SHIFT); }
__host__ __device__ static uint32_t default_of(unsigned long long best) { return best ? STATES - ((uint32_t)best & STATES) : NONE; }

/* On the device the transitions of one letter are together: next[c * n + s]. A block compares a group of states with all that have less depth. */
__global__ void compare(const uint32_t *next, const uint32_t *shallower, unsigned long long *best, size_t n, long rounds, span *ran)
{
	const stamped all(ran);
	__shared__ uint32_t own[LETTERS][GROUP];
	const size_t groups = (n + GROUP - 1) / GROUP;

	for (size_t item = blockIdx.x; item < groups * rounds; item += gridDim.x) {
		const size_t from = item % groups * GROUP, last = from + GROUP < n ? from + GROUP - 1 : n - 1;
		unsigned long long found[GROUP] = {};
		__syncthreads();
		for (unsigned i = threadIdx.x; i < LETTERS * GROUP; i += blockDim.x)
			own[i / GROUP][i % GROUP] = from + i % GROUP < n ? next[i / GROUP * n + from + i % GROUP] : 0;
		__syncthreads();
		for (size_t other = threadIdx.x; other < shallower[last]; other += blockDim.x) {
			unsigned common[GROUP] = {};
			for (int c = 0; c < LETTERS; c++) {
				const uint32_t target = next[c * n + other];
				for (int g = 0; g < GROUP; g++)
					common[g] += target == own[c][g];
			}
			for (int g = 0; g < GROUP; g++)
				if (from + g < n && other < shallower[from + g] && found[g] < choice(common[g], other))
					found[g] = choice(common[g], other);
		}
		for (int g = 0; g < GROUP; g++)
			if (found[g])
				atomicMax(&best[from + g], found[g]);
	}
}
KERNEL(compare);

/* keep writes the transitions of each state that differ from its default's, from begin[s] on: the letter, and where it leads. */
__global__ void keep(const uint32_t *next, const unsigned long long *best, const uint32_t *begin, uint32_t *kept, size_t n, span *ran)
{
	const stamped all(ran);

	for (size_t s = first_item(); s < n; s += items_apart()) {
		const uint32_t other = default_of(best[s]);
		uint32_t at = begin[s];
		for (uint32_t c = 0; c < LETTERS; c++)
			if (other == NONE || next[c * n + s] != next[c * n + other])
				kept[at++] = c << SHIFT | next[c * n + s];
	}
}
KERNEL(keep);

/* wrong_states counts states whose transitions are not those of the DFA, or of a sample, whose default is not the best. A compressed DFA is the default of
 * each state, how many transitions each keeps, and these. */
static long wrong_states(const dfa &of, const uint32_t *compressed)
{
	const size_t n = of.shallower.size();
	const uint32_t *const defaults = compressed, *const counts = defaults + n, *kept = counts + n;
	std::vector<uint32_t> next(n * LETTERS);
	long wrong = 0;

	for (size_t s = 0; s < n; s++) {
		uint32_t *const row = &next[s * LETTERS];
		if (defaults[s] < of.shallower[s])
			memcpy(row, &next[(size_t)defaults[s] * LETTERS], LETTERS * sizeof *row);
		for (uint32_t i = 0; i < counts[s]; i++, kept++)
			row[*kept >> SHIFT] = *kept & STATES;
		wrong += (defaults[s] >= of.shallower[s] && defaults[s] != NONE) || memcmp(row, &of.next[s * LETTERS], LETTERS * sizeof *row) != 0;
	}
	for (size_t i = 0; i < SAMPLE; i++) {
		const size_t s = (n - 1) * i / (SAMPLE - 1);
		unsigned long long best = 0;
		for (size_t other = 0; other < of.shallower[s]; other++) {
			unsigned common = 0;
			for (int c = 0; c < LETTERS; c++)
				common += of.next[s * LETTERS + c] == of.next[other * LETTERS + c];
			best = std::max(best, choice(common, other));
		}
		wrong += defaults[s] != default_of(best) || counts[s] != LETTERS - common_of(best);
	}
	return wrong;
}

int main(int argc, char **argv)
{
	cluster_program p(argc, argv, what);
	const size_t n = p.size;
	uint32_t *next = p.allocate<uint32_t>(n * LETTERS, "DFA"), *kept = p.allocate<uint32_t>(n * LETTERS, "compressed DFA"),
			 *shallower = p.allocate<uint32_t>(n, "depths"), *begin = p.allocate<uint32_t>(n, "begins");
	auto *best = p.allocate<unsigned long long>(n, "defaults");
	p.begin();
	std::vector<uint32_t> all, mine; /* compressed DFAs: at the root all, in order of their numbers, and the last one of this rank */
	long wrong = 0;
	for (size_t iteration = 0; iteration < (size_t)iterations; iteration++) {
		p.phase("next DFA");
		const dfa of = generated(iteration * p.job.count + p.job.own, n);
		p.phase("device");
		upload(next, n * LETTERS, [&](size_t i) { return of.next[i % n * LETTERS + i / n]; });
		copy_to_device(shallower, of.shallower.data(), n * sizeof *shallower);
		GPU(cudaMemset(best, 0, n * sizeof *best));
		STEP(compare, p, next, shallower, best, n, p.rounds);
		const std::vector<unsigned long long> chosen = download(best, n);
		mine.assign(2 * n, 0);
		std::vector<uint32_t> begins(n);
		uint32_t count = 0;
		for (size_t s = 0; s < n; s++) {
			begins[s] = count;
			mine[s] = default_of(chosen[s]);
			count += mine[n + s] = LETTERS - common_of(chosen[s]);
		}
		copy_to_device(begin, begins.data(), n * sizeof *begin);
		STEP(keep, p, next, best, begin, kept, n);
		mine.resize(2 * n + count);
		copy_to_host(&mine[2 * n], kept, count * sizeof *kept);
		p.phase("gather");
		size_t at = all.size();
		uint64_t words = mine.size();
		if (p.job.own != 0) {
			p.job.send(0, &words, sizeof words);
			p.job.send_parts(0, mine.data(), words * sizeof(uint32_t));
			continue;
		}
		std::vector<size_t> where(1, at);
		all.insert(all.end(), mine.begin(), mine.end());
		for (int rank = 1; rank < p.job.count; rank++) {
			p.job.receive(rank, &words, sizeof words);
			where.push_back(at = all.size());
			all.resize(at + words);
			p.job.receive_parts(rank, &all[at], words * sizeof(uint32_t));
		}
		p.phase("verify");
		for (int rank = 0; p.checks() && rank < p.job.count; rank++)
			wrong += wrong_states(generated(iteration * p.job.count + rank, n), &all[where[rank]]);
	}
	if (p.checks())
		verify_report("states", wrong, 0);
	return p.finish(p.job.own == 0 ? all : mine);
}
