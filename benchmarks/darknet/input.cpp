#include "input.h"

#include "common/host.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

image_batches::image_batches(const network &net, const std::string &image)
    : net_(net), image_(image), listed_(image.empty()), prompt_(listed_ && isatty(STDIN_FILENO))
{
	if (!listed_)
		check_image_name(image);
}

bool image_batches::next_name(std::string *name)
{
	char *line = nullptr;
	size_t room = 0;

	name->clear();
	if (!listed_) {
		name->swap(image_);
		return !name->empty();
	}
	if (prompt_) {
		printf("Enter Image Path: ");
		fflush(stdout);
	}
	while (name->empty() && getline(&line, &room, stdin) >= 0) {
		line[strcspn(line, "\r\n")] = 0;
		*name = line;
	}
	free(line);
	return !name->empty();
}

void image_batches::make(image_batch *batch)
{
	std::string name;

	batch->names.clear();
	batch->sizes.clear();
	batch->values.resize(net_.batch * net_.inputs());
	while (batch->names.size() < size_t(net_.batch) && next_name(&name)) {
		load_image(name, net_.c, &whole_);
		letterbox(whole_, net_.w, net_.h, &batch->values[batch->names.size() * net_.inputs()]);
		batch->names.push_back(name);
		batch->sizes.push_back({whole_.w, whole_.h});
	}
}

bool image_batches::next(image_batch *batch)
{
	if (making_.valid())
		making_.get();
	else
		make(&ahead_);
	std::swap(*batch, ahead_);
	if (!batch->names.empty() && !prompt_)
		making_ = std::async(std::launch::async, [this] { make(&ahead_); });
	return !batch->names.empty();
}

std::vector<std::string> read_names(const std::string &path, size_t classes)
{
	std::vector<std::string> names;

	if (!read_lines(path, &names)) {
		fprintf(stderr, "%s: names of classes \"%s\": no such file: they are numbered\n",
		        program_invocation_short_name, path.c_str());
		for (size_t i = 0; i < classes; i++)
			names.push_back("class " + std::to_string(i));
	}
	if (names.size() < classes)
		die(EXIT_INPUT, "%s has %zu names, want %zu", path.c_str(), names.size(), classes);
	names.resize(classes);
	return names;
}
