# libcase.so and the fakes under gcc's thread sanitizer, in build/tsan, with the CUDA
# programs of tests/programs as they are, linked with it (lazytest). The runtime is that of
# CUDA 13.
TSAN         = -fsanitize=thread -O1 -g
TSAN_CFLAGS  = -std=c11 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread $(CFLAGS)
TSAN_PROBE   = $(patsubst ../%.c,build/tsan/%.o,$(wildcard ../probe/*.c ../probe/shared/*.c))
TSAN_OBJECTS = $(OBJECTS:build/%=build/tsan/lazy/%) $(TSAN_PROBE)
TSAN_DRIVER  = $(FAKE_DRIVER:../%.cc=build/tsan/%.o)
TSAN_RUNTIME = $(FAKE_RUNTIME:../%.cc=build/tsan/%.o)

$(ROOMS:%=build/tsan/lazy/%) build/tsan/probe/shared build/tsan/fake:
	mkdir -p $@

build/tsan/probe/%.o: ../probe/%.c build/flags $(wildcard ../probe/*.h ../probe/shared/*.h) tests/tsan.mk | build/tsan/probe/shared
	$(CC) $(TSAN_CFLAGS) $(TSAN) -c -o $@ $<

build/tsan/lazy/%.o: % $(HEADERS) tests/tsan.mk | $(ROOMS:%=build/tsan/lazy/%)
	$(CXX) $(ALL_CXXFLAGS) $(TSAN) -c -o $@ $<

build/tsan/fake/%.o: ../fake/%.cc build/flags $(FAKE_HEADERS) tests/tsan.mk | build/tsan/fake
	$(CXX) $(FAKE_CXXFLAGS) $(TSAN) -DFAKE_CUDART=13000 -c -o $@ $<

build/tsan/libcase.so: $(TSAN_OBJECTS) libcase.map
	$(CXX) $(TSAN) -shared -pthread -Wl,-soname,libcase.so -Wl,--version-script=libcase.map -Wl,-Bsymbolic-functions \
		-static-libstdc++ -static-libgcc -o $@ $(TSAN_OBJECTS) -ldl $(LDFLAGS)

build/tsan/libcuda.so.1: $(TSAN_DRIVER) ../fake/libcuda.map
	$(CXX) $(TSAN) $(FAKE_LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script,../fake/libcuda.map -o $@ $(TSAN_DRIVER)

build/tsan/libcudart.so.13: $(TSAN_RUNTIME) ../fake/libcudart.so.13.map
	$(CXX) $(TSAN) $(FAKE_LDFLAGS) -Wl,-soname,libcudart.so.13 -Wl,--version-script,../fake/libcudart.so.13.map -o $@ $(TSAN_RUNTIME)

build/tsan/lazy_program: $(LAZY_13) build/tsan/libcudart.so.13
	$(CXX) $(TSAN) -pthread -o $@ $^ -ldl

build/tsan/explicit_program: $(EXPLICIT_13) build/tsan/libcudart.so.13
	$(CXX) $(TSAN) -pthread -o $@ $^ -ldl

build/tsan/partly_static: $(PARTLY_13) $(PROBE) build/tsan/libcudart.so.13
	$(CXX) $(TSAN) -pthread -o $@ $^ -ldl

tsan: build/tsan/libcase.so build/tsan/libcuda.so.1 build/tsan/lazy_program build/tsan/explicit_program build/tsan/partly_static

.PHONY: tsan
