/* random.h: reproducible numbers: each is a function of a seed and an index. */
#ifndef DARKNET_RANDOM_H
#define DARKNET_RANDOM_H

#include <stdint.h>

/* The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
inline uint64_t hash64(uint64_t value)
{
	value += 0x9e3779b97f4a7c15u;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

/* A different sequence for each (seed, stream). */
class random_sequence {
public:
	random_sequence(uint64_t seed, uint64_t stream) : state_(hash64(seed) ^ hash64(~stream)) {}
	uint64_t bits() { return hash64(state_ += 0x9e3779b97f4a7c15u); }
	double uniform() { return double(bits() >> 11) / (uint64_t(1) << 53); } /* [0, 1) */
	double between(double low, double high) { return low + (high - low) * uniform(); }
	uint64_t below(uint64_t bound) { return bits() % bound; }

private:
	uint64_t state_;
};

#endif
