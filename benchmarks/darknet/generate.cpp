#include "commands.h"

#include "random.h"
#include "verify.h"

/* A smaller chance counts as 0. */
static const float LEAST_CHANCE = .0001f;

static size_t drawn_from(const std::vector<float> &chances, double uniform)
{
	double total = 0, sum = 0;
	size_t last = 0;

	for (float chance : chances)
		total += chance < LEAST_CHANCE ? 0 : chance;
	for (size_t i = 0; i < chances.size(); i++) {
		if (chances[i] < LEAST_CHANCE)
			continue;
		last = i;
		sum += chances[i];
		if (sum > uniform * total)
			break;
	}
	return last;
}

/* Bytes that are not printable ASCII are printed as \xNN, because a network with seeded
 * weights writes any bytes. */
static void print_symbol(unsigned char symbol)
{
	if ((symbol >= ' ' && symbol < 127) || symbol == '\n' || symbol == '\t')
		putchar(symbol);
	else
		printf("\\x%02x", symbol);
}

int rnn_generate(const std::string &cfg, const std::string &weights, const settings &s)
{
	network net = read_network(cfg);
	if (net.batch != 1)
		die(EXIT_INPUT, "%s: [net] has batch=%d; to generate text, want batch=1", cfg.c_str(), net.batch);
	if (net.inputs() != net.outputs() || net.inputs() > 256)
		die(EXIT_INPUT, "%s has %zu inputs and %zu outputs; to generate text, want one each for up to 256 symbols",
		    cfg.c_str(), net.inputs(), net.outputs());
	for (unsigned char symbol : s.text)
		if (symbol >= net.inputs())
			die(EXIT_INPUT, "-seed has symbol %d; %s knows %zu", symbol, cfg.c_str(), net.inputs());
	for (layer &l : net.layers)
		l.temperature = float(s.temperature);
	if (s.common.footprint) {
		print_network_footprint(net, false);
		return EXIT_OK;
	}
	phase_clock phase(s.common.phases);
	phase.start("weights");
	const model start = load_model(net, weights, s.seed);

	phase.start("copy in");
	device_network device(net, start, false, s.seed);
	std::unique_ptr<verification> verify(s.common.verify ? new verification(net, start) : nullptr);

	phase.start("generate");
	const size_t last = net.layers.size() - 1;
	random_sequence random(s.sampling_seed, 1);
	std::vector<float> one_hot(net.inputs());
	std::string written = s.text;
	uint64_t sum = 0;
	for (unsigned char symbol : s.text)
		print_symbol(symbol);
	/* Each symbol of the seed and of the text is an input. The first symbol is drawn from
	 * the output of the seed's last symbol. */
	for (size_t at = 0; at + 1 < s.text.size() + s.length; at++) {
		const unsigned char symbol = written[at];
		one_hot[symbol] = 1;
		device.predict(one_hot.data());
		if (verify)
			verify->predicted(device, one_hot.data());
		one_hot[symbol] = 0;
		if (at + 1 < s.text.size())
			continue;
		const std::vector<float> chances = device.output(last);
		sum = checksum(chances.data(), chances.size() * sizeof(float), sum);
		written += char(drawn_from(chances, random.uniform()));
		print_symbol(written.back());
	}
	printf("\n");
	print_checksum(checksum(written.data(), written.size(), sum));
	if (s.common.out) {
		FILE *out = open_output(s.common.out);
		fwrite(written.data(), 1, written.size(), out);
		close_output(out, s.common.out);
	}
	if (verify)
		verify->report();
	phase.start("tear-down");
	phase.finish();
	return EXIT_OK;
}
