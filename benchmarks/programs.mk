# Builds CUDA programs of the kind of pilot/pilot.h into $(SUITE)/$(NAME). The including Makefile says NAME and PROGRAMS first.
# `make test` builds them into build with g++ for the fake CUDA runtime, and calls test.sh. FLAGS and FOLDER may be added to,
# and MORE names headers of other folders.
NVCC ?= nvcc
SUITE := ../../bin/suite

FOLDER ?= $(SUITE)/$(NAME)
FLAGS  = -std=c++14 $(CODE) -cudart shared -O2 $(DEFINES) $(NVCCFLAGS)

COMMON  := $(addprefix $(SUITE)/obj/$(NAME)-,pilot.o suite.o host.o)
HEADERS := $(wildcard *.h) $(MORE) ../pilot/pilot.h $(wildcard ../rodinia/common/*.h) ../../native/stop/case_stop.h Makefile ../programs.mk

all: $(addprefix $(FOLDER)/,$(PROGRAMS))

HAVE_NVCC := $(shell command -v $(NVCC) 2>/dev/null)
ifeq ($(HAVE_NVCC),)
ifeq ($(filter clean casecc test build/%,$(MAKECMDGOALS)),)
$(shell echo "benchmarks/$(NAME): no CUDA compiler ($(NVCC)): install NVIDIA's CUDA toolkit (11.8 to 13.0), or name a compiler with NVCC=/path/to/nvcc" >&2)
$(error cannot build the programs)
endif
endif

$(FOLDER)/%: %.cu $(COMMON) $(HEADERS)
	@mkdir -p $(@D)
	$(NVCC) $(FLAGS) -o $@ $< $(COMMON)

$(SUITE)/obj/$(NAME)-pilot.o: ../pilot/pilot.cu
$(SUITE)/obj/$(NAME)-suite.o: ../rodinia/common/suite.cpp
$(SUITE)/obj/$(NAME)-host.o: ../rodinia/common/host.cpp
$(COMMON): $(HEADERS) $(SUITE)/obj/arch $(COMPILER)
	@mkdir -p $(@D)
	$(NVCC) $(FLAGS) -c -o $@ $(filter %.cu %.cpp,$^)

include ../arch.mk
include ../casecc.mk

# Kernels run on the host, thread by thread.
FAKE := ../../native/fake
HOST := ../pilot/host
ON_HOST = $(CXX) -std=c++17 -O1 -Wall -Wextra -Werror -Wno-unknown-pragmas -DFAKE_NVCC=13 -I$(HOST) -I$(FAKE) -I$(FAKE)/build

build/%.o: %.cu $(HEADERS) $(HOST)/cuda_runtime.h | build
	$(ON_HOST) -x c++ -c -o $@ $<
build/common-%.o: ../pilot/%.cu $(HEADERS) $(HOST)/cuda_runtime.h | build
	$(ON_HOST) -x c++ -c -o $@ $<
build/common-%.o: ../rodinia/common/%.cpp $(HEADERS) $(HOST)/cuda_runtime.h | build
	$(ON_HOST) -c -o $@ $<
build/common-%.o: $(HOST)/%.cc $(HOST)/cuda_runtime.h | build
	$(ON_HOST) -c -o $@ $<
build/%: build/%.o $(addprefix build/common-,pilot.o suite.o host.o execute.o)
	$(CXX) -o $@ $^ $(FAKE)/build/13/libcudart.so.13 -ldl

build:
	$(MAKE) -C $(FAKE) build/13/libcudart.so.13 build/13/libcuda.so.1
	mkdir -p $@

test: $(addprefix build/,$(PROGRAMS))
	./test.sh

clean:
	rm -rf build $(SUITE)/$(NAME)* $(SUITE)-casecc/$(NAME)

.PHONY: all test clean
.SECONDARY:
