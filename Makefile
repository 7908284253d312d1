# Targets: demo build native cuda casecc install dist release-check test test-native test-go test-full soak test-gpu bench check clean.

GO ?= go
# As many jobs as cores, unless the user has said how many.
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

.PHONY: all demo build native cuda casecc install dist release-check test test-native test-go test-full soak test-gpu bench check clean

all: build native

# From a fresh clone to the first table: two schedulers on a simulated node.
demo: build
	@benchmarks/demo.sh

# SQLite takes a third of the first build's processor time.
build:
	@[ "$$($(GO) env CGO_ENABLED)" = 1 ] || { echo "caserun is partly written in C: install gcc, or name a compiler with CC, and do not set CGO_ENABLED=0" >&2; exit 1; }
	@$(GO) list $(BUILDFLAGS) -f '{{if .Stale}}the first build compiles SQLite and takes about a minute{{end}}' github.com/mattn/go-sqlite3 >&2
	$(GO) build -buildvcs=auto $(BUILDFLAGS) -o bin/caserun ./cmd/caserun

# libcase, the programs that hold memory for a run, the kernel tracer if CUPTI is installed, and IVM.
native:
	$(MAKE) $(jobs) -C native/lazy
	$(MAKE) -C native/probe
	$(MAKE) -C native/tracer
	$(MAKE) -C native/ballast
	$(MAKE) -C native/ivm

# Builds the CUDA suites into bin/suite. NVCC is the compiler. ARCH lists the architectures; the
# default is those of this machine's GPUs, or sm_90 if there is none.
cuda:
	$(MAKE) -C benchmarks

# Builds the CUDA suites into bin/suite-casecc with CASE's compiler pass (docs/design/casecc.md),
# which needs clang and a CUDA toolkit, but not nvcc.
casecc:
	$(MAKE) -C benchmarks/rodinia casecc
	$(MAKE) -C benchmarks/darknet casecc
	$(MAKE) -C benchmarks/pilot casecc
	$(MAKE) -C benchmarks/node casecc
	$(MAKE) -C benchmarks/cluster casecc

PREFIX ?= /usr/local
SUITES ?= suite suite-casecc
bin     = $(DESTDIR)$(PREFIX)/bin
lib     = $(DESTDIR)$(PREFIX)/lib/caserun
share   = $(DESTDIR)$(PREFIX)/share

# Installs caserun, its manual pages and completions, and what has been built for live runs: the
# kernel tracer and the CUDA suites only if they are there. The folders may be moved together.
install: build native
	install -D -t $(bin) bin/caserun
	bin/caserun man $(share)/man/man1
	mkdir -p $(share)/bash-completion/completions $(share)/zsh/site-functions $(share)/fish/vendor_completions.d
	bin/caserun completion bash >$(share)/bash-completion/completions/caserun
	bin/caserun completion zsh >$(share)/zsh/site-functions/_caserun
	bin/caserun completion fish >$(share)/fish/vendor_completions.d/caserun.fish
	install -D -t $(lib) -m 644 native/lazy/libcase.so
	install -D -t $(lib) native/ballast/ballast native/ballast/checkpoint native/ballast/slow native/ballast/swaparea native/ballast/swaprate
	install -D -t $(lib)/torch benchmarks/torch/*.py
	install -D -t $(DESTDIR)$(PREFIX)/include -m 644 native/stop/case_stop.h native/ivm/ivm.h
	install -D -t $(DESTDIR)$(PREFIX)/lib -m 644 native/ivm/libivm.a
	install -D -t $(lib) native/ivm/build/ivmd
	[ ! -f native/ivm/build/libivm-ucx.so ] || install -D -t $(lib) -m 644 native/ivm/build/libivm-ucx.so
	ln -sf ../lib/caserun/ivmd $(bin)/ivmd
	[ ! -f native/tracer/libcasetrace.so ] || install -D -t $(lib) -m 644 native/tracer/libcasetrace.so
	for suite in $(SUITES); do \
		[ ! -d bin/$$suite ] || (cd bin/$$suite && find . -type f -perm -u+x ! -path './obj/*' -exec install -D {} $(abspath $(lib))/$$suite/{} \;) || exit 1; \
	done

# Makes bin/dist/caserun-VERSION-linux-amd64.tar.gz, and its .sha256: what make install installs, the documents, and
# the sources of the CUDA suites with a Makefile. It may be unpacked anywhere, on a machine without
# Go. The same commit and compilers give the same bytes in any folder; build IDs, which depend on it,
# are left out. It grows in bin/_dist, because go list would find the packages of any other folder.
VERSION ?= $(shell git describe --tags --always --dirty)
name     = caserun-$(VERSION)-$(shell $(GO) env GOOS)-$(shell $(GO) env GOARCH)
dist:
	rm -rf bin/dist bin/_dist
	mkdir -p bin/dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	$(MAKE) install DESTDIR= PREFIX=$(CURDIR)/bin/_dist/$(name) SUITES= BUILDFLAGS='-trimpath -ldflags=-s'
	find bin/_dist/$(name)/lib/caserun bin/_dist/$(name)/lib -maxdepth 1 -type f -exec strip -g -R .note.gnu.build-id {} +
	git ls-files -z README.md CHANGELOG.md CONTRIBUTING.md LICENSE CITATION.cff docs containers benchmarks/Makefile \
		'benchmarks/*.mk' 'benchmarks/*.md' benchmarks/plan benchmarks/rodinia benchmarks/darknet benchmarks/pilot benchmarks/node benchmarks/cluster native/stop mixes/suites/inputs/cfg | xargs -0 cp --parents -t bin/_dist/$(name)
	printf 'cuda:\n\t$$(MAKE) -C benchmarks\n.PHONY: cuda\n' >bin/_dist/$(name)/Makefile
	tar -C bin/_dist -c --sort=name --mtime=@$$(git log -1 --format=%ct) --owner=0 --group=0 --numeric-owner \
		--mode=go=rX,u+w $(name) | gzip -9n >bin/dist/$(name).tar.gz
	rm -r bin/_dist
	cd bin/dist && sha256sum $(name).tar.gz >$(name).tar.gz.sha256

# What a release must pass (CONTRIBUTING.md): two builds of equal bytes, and the archive in an empty root.
release-check:
	.ci/dist release

# The gate: what everybody runs, in minutes. Needs Go, gcc, g++ and make; neither a GPU nor CUDA.
# Tests of Go that need native parts wait until these are built (nativetest).
test:
	@$(MAKE) $(jobs) test-native test-go

test-native:
	flock native/.lock $(MAKE) -s -C native/lazy fixtures tests
	flock native/.lock $(MAKE) -s -C native/probe fixtures tests
	flock native/.lock $(MAKE) -s -C native/fake tests
	flock native/.lock $(MAKE) -s -C native/ivm fixtures
	$(MAKE) -s -C native/probe test
	$(MAKE) -s -C native/lazy test
	$(MAKE) -s -C native/fake test
	$(MAKE) -s -C native/tracer test
	$(MAKE) -s -C benchmarks/darknet test
	benchmarks/arch_test.sh

# make check has go vet in it.
test-go:
	$(GO) test -vet=off ./...

# The full tier beyond the gate: what .ci/install installs. WITHOUT=slurm,chromium leaves tools out.
test-full:
	.ci/full $(WITHOUT)

# Tests that draw, with other draws, for DURATION. SEED does a round again that has failed.
DURATION ?= 1h
soak:
	.ci/soak $(DURATION) $(SEED)

# Needs NVIDIA GPUs. A skipped test is a failure.
test-gpu: build native
	CASERUN_REQUIRE_GPU=1 $(GO) test -count=1 ./collectors/nvml ./collectors/kernels ./runner/mps ./runner/ballast ./native/lazy/lazytest -run GPU

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(MAKE) -s -C benchmarks/ivm bench

check:
	@files=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run ./...

clean:
	$(MAKE) -C native/probe clean
	$(MAKE) -C native/lazy clean
	$(MAKE) -C native/fake clean
	$(MAKE) -C native/tracer clean
	$(MAKE) -C native/pass clean
	$(MAKE) -C native/ballast clean
	$(MAKE) -C native/nvml clean
	$(MAKE) -C native/ivm clean
	$(MAKE) -C benchmarks/darknet clean
	$(MAKE) -C benchmarks/pilot clean
	$(MAKE) -C benchmarks/node clean
	$(MAKE) -C benchmarks/cluster clean
	$(MAKE) -C benchmarks/rodinia clean
	rm -rf bin
