# Programs of the fake CUDA (../fake) for the tests of the lazy runtime (lazytest). build/13 has those of
# CUDA 13, build/11 those of CUDA 11.
include ../fake/fake.mk

FAKES = ../fake/build/13/libcuda.so.1 ../fake/build/13/libcudart.so.13 ../fake/build/11/libcudart.so.11.0 \
        ../fake/build/13/libcudart_static.a ../fake/build/11/libcudart_static.a

fake:
	$(MAKE) -C ../fake
$(FAKES): fake
	@:

# nvcc 13 launches kernels in another way than nvcc 11, and some calls of CUDA 13 differ. The other files are the same
# in both programs.
OF_VERSION = kernels locations outside structs
BUILD    = $(CXX) $(FAKE_CXXFLAGS) -Wundef -isystem build # where calls that differ have no declaration without FAKE_NVCC
BUILD_13 = $(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=13
BUILD_11 = $(CXX) $(FAKE_CXXFLAGS) -DFAKE_NVCC=11
RUNTIME_13 = ../fake/build/13/libcudart.so.13
RUNTIME_11 = ../fake/build/11/libcudart.so.11.0
PROGRAM_HEADERS = build/flags $(FAKE_HEADERS) tests/programs/program.h ../probe/case.h ../probe/static.h tests/programs.mk

build/13 build/11 build/programs:
	mkdir -p $@

build/programs/%.o: tests/programs/%.cc $(PROGRAM_HEADERS) | build/programs
	$(BUILD) -c -o $@ $<

build/programs/%.o: tests/%/main.cc $(PROGRAM_HEADERS) | build/programs
	$(BUILD) -c -o $@ $<

build/13/%.o: tests/programs/%.cc $(PROGRAM_HEADERS) | build/13
	$(BUILD_13) -c -o $@ $<

build/11/%.o: tests/programs/%.cc $(PROGRAM_HEADERS) | build/11
	$(BUILD_11) -c -o $@ $<

# objects VERSION NAMES
objects = $(foreach name,$2,build/$(if $(filter $(name),$(OF_VERSION)),$1,programs)/$(name).o)
LAZY    = $(patsubst tests/programs/%.cc,%,$(wildcard tests/programs/*.cc))
LAZY_13 = $(call objects,13,$(LAZY))
LAZY_11 = $(call objects,11,$(LAZY))

build/13/lazy_program: $(LAZY_13) $(RUNTIME_13)
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

# The same with a static runtime.
build/13/static_lazy: $(LAZY_13) ../fake/build/13/libcudart_static.a
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

build/11/lazy_program: $(LAZY_11) $(RUNTIME_11)
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

# Programs that ask for tasks themselves: with the library's functions from the preloaded
# libcase.so, and with a copy of their own.
EXPLICIT_13 = $(call objects,13,explicit program kernels)
EXPLICIT_11 = $(call objects,11,explicit program kernels)

build/13/explicit_program: $(EXPLICIT_13) $(RUNTIME_13)
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

build/11/explicit_program: $(EXPLICIT_11) $(RUNTIME_11)
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

build/13/explicit_own_copy: $(EXPLICIT_13) $(PROBE) $(RUNTIME_13)
	$(CXX) $(FAKE_CXXFLAGS) -Wl,-u,case_task_ask -o $@ $^ -ldl

# Programs of which the compiler has found some tasks (static.h). Such programs have a copy of
# the library's functions.
PARTLY_13 = $(call objects,13,partly program kernels)

build/13/partly_static: $(PARTLY_13) $(PROBE) $(RUNTIME_13)
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $^ -ldl

# Its CUDA runtime, as far as it has one, is linked statically.
build/13/explicit_static: tests/static/main.cc $(PROGRAM_HEADERS) $(PROBE) | build/13
	$(CXX) $(FAKE_CXXFLAGS) -DTASK_API -o $@ $< $(PROBE) -ldl

build/13/static_program: tests/static/main.cc $(PROGRAM_HEADERS) | build/13
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $< -ldl

# Programs that allocate through the driver.
build/13/driver_program: tests/driver/main.cc $(PROGRAM_HEADERS) | build/13
	$(CXX) $(FAKE_CXXFLAGS) -o $@ $< -ldl

# The same programs with a static CUDA runtime and the lazy runtime linked into them, as casecc links it.
LINKED_LIBRARIES = libcase_reach.a -ldl -lc libcase_lazy.a $(PROBE) $(filter %/libcudart_static.a,$^) libcase_lazy.a -lpthread -ldl \
                   -Wl,@libcase_lazy.link

build/13/linked_lazy: $(LAZY_13)
build/11/linked_lazy: $(LAZY_11)
build/13/linked_partly: $(PARTLY_13)
build/13/linked_explicit: $(EXPLICIT_13)
build/13/linked_explicit: CALLS = -Wl,-u,case_task_ask
LINKED_13 = $(addprefix build/13/,linked_lazy linked_partly linked_explicit)
$(LINKED_13): ../fake/build/13/libcudart_static.a
build/11/linked_lazy: ../fake/build/11/libcudart_static.a
$(LINKED_13) build/11/linked_lazy: libcase_reach.a libcase_lazy.a libcase_lazy.link $(PROBE)
	$(CXX) $(FAKE_CXXFLAGS) $(CALLS) -o $@ $(filter %.o,$^) $(LINKED_LIBRARIES)

# A library that reaches the driver by itself, and does all its work with what it finds there.
build/13/part.so: tests/part/main.cc $(PROGRAM_HEADERS) | build/13
	$(CXX) $(FAKE_CXXFLAGS) -shared -o $@ $< -ldl

# It is linked with the driver.
build/13/part_linked.so: tests/part/main.cc ../fake/build/13/libcuda.so.1 $(PROGRAM_HEADERS) | build/13
	$(CXX) $(FAKE_CXXFLAGS) -DLINKED -shared -o $@ $(filter %.cc %.1,$^)

programs: $(addprefix build/13/,part.so part_linked.so lazy_program static_lazy static_program driver_program explicit_program explicit_own_copy explicit_static partly_static) \
          build/11/lazy_program build/11/explicit_program $(LINKED_13) build/11/linked_lazy

.PHONY: fake programs
