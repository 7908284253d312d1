# The fake CUDA driver and runtime, and their own test. build/fake/13 and
# build/fake/11 are library directories for programs of CUDA 13 and of CUDA 11. -O1 and -g1 take 40 % less to compile.
FAKE_CXXFLAGS   = -std=c++17 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread $(CXXFLAGS) -O1 -g1
FAKE_LDFLAGS    = -shared -static-libstdc++ -static-libgcc -Wl,-Bsymbolic
FAKE_HEADERS    = build/flags $(wildcard fake/*.h) lazy/abi.h fake/fake.mk
FAKE_DRIVER     = $(addprefix fake/,machine.cc memory.cc stream.cc driver.cc)
FAKE_RUNTIME    = $(addprefix fake/,runtime.cc runtime_memory.cc runtime_copy.cc runtime_launch.cc runtime_stream.cc \
                  runtime_graph.cc runtime_range.cc runtime_batch.cc runtime_context.cc)
FAKE_OBJECTS    = $(FAKE_DRIVER:fake/%.cc=build/fake/driver/%.o)
FAKE_OBJECTS_13 = $(FAKE_RUNTIME:fake/%.cc=build/fake/13/%.o)
FAKE_OBJECTS_11 = $(FAKE_RUNTIME:fake/%.cc=build/fake/11/%.o)
FAKES           = build/fake/13/libcudart.so.13 build/fake/11/libcudart.so.11.0 \
                  build/fake/13/libcuda.so.1 build/fake/11/libcuda.so.1 build/fake/13/libnvidia-ml.so.1

build/fake/13 build/fake/11 build/fake/driver:
	mkdir -p $@

build/fake/driver/%.o: fake/%.cc $(FAKE_HEADERS) | build/fake/driver
	$(CXX) $(FAKE_CXXFLAGS) -c -o $@ $<

build/fake/13/%.o: fake/%.cc $(FAKE_HEADERS) | build/fake/13
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_CUDART=13000 -c -o $@ $<

build/fake/11/%.o: fake/%.cc $(FAKE_HEADERS) | build/fake/11
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_CUDART=11080 -c -o $@ $<

build/fake/13/libcuda.so.1 build/fake/11/libcuda.so.1: $(FAKE_OBJECTS) fake/libcuda.map | build/fake/13 build/fake/11
	$(CXX) $(FAKE_LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script,fake/libcuda.map -o $@ $(FAKE_OBJECTS)

build/fake/13/libcudart.so.13: $(FAKE_OBJECTS_13) fake/libcudart.so.13.map
	$(CXX) $(FAKE_LDFLAGS) -Wl,-soname,libcudart.so.13 -Wl,--version-script,fake/libcudart.so.13.map -o $@ $(FAKE_OBJECTS_13)

build/fake/11/libcudart.so.11.0: $(FAKE_OBJECTS_11) fake/libcudart.so.11.0.map
	$(CXX) $(FAKE_LDFLAGS) -Wl,-soname,libcudart.so.11.0 -Wl,--version-script,fake/libcudart.so.11.0.map -o $@ $(FAKE_OBJECTS_11)

# NVML of the same devices.
build/fake/13/libnvidia-ml.so.1: ../nvml/fake_nvml.c build/flags fake/fake.mk | build/fake/13
	$(CC) -std=gnu11 -Wall -Wextra -Werror -fPIC $(CFLAGS) -DOF_FAKE_CUDA -shared -Wl,-soname,libnvidia-ml.so.1 -o $@ $<

build/fake/13/selftest: fake/selftest.cc $(FAKE_HEADERS) build/fake/13/libcudart.so.13
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=13 -o $@ $< build/fake/13/libcudart.so.13 -ldl

build/fake/11/selftest: fake/selftest.cc $(FAKE_HEADERS) build/fake/11/libcudart.so.11.0
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=11 -o $@ $< build/fake/11/libcudart.so.11.0 -ldl

# CUDA programs for the tests of the lazy runtime (runner/probe).
LAZY_PROGRAMS = $(wildcard tests/lazy/*.cc)

LAZY_OBJECTS_13 = $(LAZY_PROGRAMS:tests/lazy/%.cc=build/fake/13/tests/%.o)
LAZY_OBJECTS_11 = $(LAZY_PROGRAMS:tests/lazy/%.cc=build/fake/11/tests/%.o)

build/fake/13/tests build/fake/11/tests:
	mkdir -p $@

build/fake/13/tests/%.o: tests/lazy/%.cc tests/lazy/program.h $(FAKE_HEADERS) | build/fake/13/tests
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=13 -c -o $@ $<

build/fake/11/tests/%.o: tests/lazy/%.cc tests/lazy/program.h $(FAKE_HEADERS) | build/fake/11/tests
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=11 -c -o $@ $<

build/fake/13/lazy_program: $(LAZY_OBJECTS_13) build/fake/13/libcudart.so.13
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $(LAZY_OBJECTS_13) build/fake/13/libcudart.so.13 -ldl

build/fake/11/lazy_program: $(LAZY_OBJECTS_11) build/fake/11/libcudart.so.11.0
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $(LAZY_OBJECTS_11) build/fake/11/libcudart.so.11.0 -ldl

# Programs that ask for tasks themselves: with the library's functions from the preloaded
# libcase.so, and with a copy of their own.
EXPLICIT_13 = $(addprefix build/fake/13/tests/,explicit.o program.o kernels.o)
EXPLICIT_11 = $(addprefix build/fake/11/tests/,explicit.o program.o kernels.o)

build/fake/13/tests/explicit.o: tests/explicit/main.cc tests/lazy/program.h case.h $(FAKE_HEADERS) | build/fake/13/tests
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=13 -c -o $@ $<

build/fake/11/tests/explicit.o: tests/explicit/main.cc tests/lazy/program.h case.h $(FAKE_HEADERS) | build/fake/11/tests
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=11 -c -o $@ $<

build/fake/13/explicit_program: $(EXPLICIT_13) build/fake/13/libcudart.so.13
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

build/fake/11/explicit_program: $(EXPLICIT_11) build/fake/11/libcudart.so.11.0
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

build/fake/13/explicit_own_copy: $(EXPLICIT_13) libcase.a build/fake/13/libcudart.so.13
	$(CXX) $(FAKE_CXXFLAGS) -Wl,-u,case_task_ask -o $@ $^ -ldl

# Programs of which the compiler has found some tasks (static.h). Such programs have a copy of
# the library's functions.
PARTLY_13 = $(addprefix build/fake/13/tests/,partly.o program.o kernels.o)

build/fake/13/tests/partly.o: tests/partly/main.cc tests/lazy/program.h case.h static.h $(FAKE_HEADERS) | build/fake/13/tests
	$(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=13 -c -o $@ $<

build/fake/13/partly_static: $(PARTLY_13) libcase.a build/fake/13/libcudart.so.13
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

# Its CUDA runtime, as far as it has one, is linked statically.
build/fake/13/explicit_static: tests/static/main.cc case.h libcase.a $(FAKE_HEADERS) | build/fake/13
	$(CXX) $(FAKE_CXXFLAGS) -DTASK_API -o $@ $< libcase.a -ldl

build/fake/13/static_program: tests/static/main.cc $(FAKE_HEADERS) | build/fake/13
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $< -ldl

# The same programs with a static CUDA runtime and the lazy runtime linked into them (linked), as
# casecc links it. NVIDIA's runtime is one object, so that no reference inside it is wrapped.
FAKE_STATIC = build/fake/13/libcudart_static.a build/fake/11/libcudart_static.a
LINKED_LIBRARIES = libcase_reach.a -ldl -lc libcase_lazy.a libcase.a $(@D)/libcudart_static.a libcase_lazy.a -lpthread -ldl \
                   -Wl,@libcase_lazy.link

build/fake/13/cudart_static.o: $(FAKE_OBJECTS_13)
	$(CXX) -r -nostdlib -o $@ $^
build/fake/11/cudart_static.o: $(FAKE_OBJECTS_11)
	$(CXX) -r -nostdlib -o $@ $^
$(FAKE_STATIC): %/libcudart_static.a: %/cudart_static.o
	rm -f $@
	$(AR) rcs $@ $^

build/fake/13/linked_lazy: $(LAZY_OBJECTS_13)
build/fake/11/linked_lazy: $(LAZY_OBJECTS_11)
build/fake/13/linked_partly: $(PARTLY_13)
build/fake/13/linked_explicit: $(EXPLICIT_13)
build/fake/13/linked_explicit: CALLS = -Wl,-u,case_task_ask
LINKED_PROGRAMS = $(addprefix build/fake/,13/linked_lazy 11/linked_lazy 13/linked_partly 13/linked_explicit)
$(LINKED_PROGRAMS): libcase_reach.a libcase_lazy.a libcase_lazy.link libcase.a $(FAKE_STATIC)
	$(CXX) $(FAKE_CXXFLAGS) $(CALLS) -o $@ $(filter %.o,$^) $(LINKED_LIBRARIES)

# A library that reaches the driver by itself, and does all its work with what it finds there.
build/fake/13/part.so: tests/part/main.cc $(FAKE_HEADERS) | build/fake/13
	$(CXX) $(FAKE_CXXFLAGS) -shared -o $@ $< -ldl

fakes: build/fake/13/part.so $(FAKES) build/fake/13/lazy_program build/fake/11/lazy_program build/fake/13/static_program \
       build/fake/13/explicit_program build/fake/11/explicit_program build/fake/13/explicit_own_copy build/fake/13/explicit_static \
       build/fake/13/partly_static $(LINKED_PROGRAMS)

fake-test: $(FAKES) build/fake/13/selftest build/fake/11/selftest
	LD_LIBRARY_PATH=build/fake/13 build/fake/13/selftest
	LD_LIBRARY_PATH=build/fake/11 build/fake/11/selftest

.PHONY: fakes fake-test
