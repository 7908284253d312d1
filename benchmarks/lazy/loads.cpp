/* Has no CUDA of its own, as python has none: memory opens libmemory.so, and memory_static libmemory_static.so. */
#include <dlfcn.h>
#include <stdio.h>

#include <string>

int main(int count, char **arguments)
{
	const std::string self = arguments[0];
	const size_t name = self.rfind('/') + 1;
	void *const opened = dlopen((self.substr(0, name) + "lib" + self.substr(name) + ".so").c_str(), RTLD_NOW);
	void *const part = opened != nullptr ? dlsym(opened, "part") : nullptr;

	if (part == nullptr)
		return fprintf(stderr, "%s\n", dlerror()), 3;
	reinterpret_cast<void (*)(int, char **)>(part)(count, arguments);
	return 0;
}
