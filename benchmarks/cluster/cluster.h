/* cluster.h: programs whose ranks compute in iterations, and whose root, rank 0, gets all results. They are programs of the kind of ../node.
 * README.md says more. */
#ifndef CLUSTER_H
#define CLUSTER_H

#include "../node/node.h"
#include "../node/ranks.h"

static double iterations = 1, gpu_factor = 1;

class cluster_program : public node_program {
public:
	cluster_program(int argc, char **argv, const about &what, std::vector<own_option> own = {})
		: node_program(argc, argv, what, (own.insert(own.end(), {{"--iterations", &iterations, 1, nullptr}, {"--gpu-factor", &gpu_factor, 0, nullptr}}), own))
	{
	}

	ranks job;

	/* begin comes when all memory is allocated, and before ranks send messages. */
	void begin()
	{
		node_program::begin(1, 1);
		rounds = std::max(1L, lround(rounds * gpu_factor));
		job.meet();
	}

	/* checks reports whether this rank is to check what has been gathered. */
	bool checks() const { return chosen.verify && job.own == 0; }

	/* finish ends with the root's result. That of another rank is what it has computed last. */
	template <class T> int finish(const std::vector<T> &result) { return finish_on_host(result.data(), result.size() * sizeof(T)); }
};

#endif
