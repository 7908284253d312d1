# How the fakes, and the programs that run on them, are compiled. -O1 and -g1 take 40 % less to compile.
FAKE_CXXFLAGS = -std=c++17 -Wall -Wextra -Werror -fPIC -fvisibility=hidden -pthread -Ibuild $(CXXFLAGS) -O1 -g1
FAKE_LDFLAGS  = -shared -static-libstdc++ -static-libgcc -Wl,-Bsymbolic
FAKE_HEADERS  = $(wildcard ../fake/*.h) ../lazy/abi/abi.h build/calls/programs.h ../fake/fake.mk
FAKE_RUNTIME  = $(wildcard ../fake/runtime*.cc)
FAKE_DRIVER   = $(filter-out $(FAKE_RUNTIME) ../fake/selftest.cc,$(wildcard ../fake/*.cc))
