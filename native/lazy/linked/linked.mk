# The lazy runtime that casecc (native/pass) links into a program with a static CUDA runtime.
#
#   libcase_lazy.a     the objects of libcase.so, with linked.cc instead of preloaded.cc. Only what
#                      the program calls is visible, so nothing clashes with the program's own names.
#   libcase_reach.a    tells whether the program itself opens libraries or reaches the driver
#   libcase_lazy.link  options for the linker: --wrap makes cudaMalloc of all objects
#                      __wrap_cudaMalloc. It leaves the calls inside the CUDA runtime, which is one
#                      object. dlsym and the driver's functions are overridden as libcase.so does.
#
# The order counts: objects of the program, libcase_reach.a, libc, libcase_lazy.a, libcase.a, the
# CUDA runtime, libcase_lazy.a. A program that does not call the CUDA runtime gets none of it, except
# one instruction if it calls dlopen.
LINKED  = $(filter-out build/abi/preloaded.cc.o build/driver/dlopen.S.o,$(OBJECTS)) build/linked/linked.o
REACHES = cudaGetDriverEntryPoint cudaGetDriverEntryPoint_ptsz cudaGetDriverEntryPointByVersion \
          cudaGetDriverEntryPointByVersion_ptsz cudaIpcGetMemHandle
# Other objects of the process find these too.
EXPORTED = dlsym case_linked 'case_task_*' 'case_report_*' 'case_static_*' schedGPUInit preCudaMalloc postCudaFree
OBJCOPY ?= objcopy
NM      ?= nm

build/linked:
	mkdir -p $@

build/linked/linked.o: linked/linked.cc $(HEADERS) linked/linked.mk | build/linked
	$(CXX) $(ALL_CXXFLAGS) -c -o $@ $<

# Groups of equal code would be merged with the program's, which has its own.
build/linked/all.o: $(LINKED)
	$(CXX) -r -nostdlib -Wl,--force-group-allocation -o $@ $(LINKED)

# What is overridden, a name a line: functions of the CUDA runtime, and of the driver.
build/linked/runtime.names: build/linked/all.o
	$(NM) --defined-only --extern-only $< | awk '$$3 ~ /^(__)?cuda[A-Z]/ { print $$3 }' | sort >$@
build/linked/driver.names: build/linked/all.o
	$(NM) --defined-only --extern-only $< | awk '$$3 ~ /^cu[A-Z]/ { print $$3 }' | sort >$@

# The library's own names for them, and what the program's objects see. objcopy does not make a symbol
# local that is unique in a process; a weak one it does.
build/linked/core.o: build/linked/all.o build/linked/runtime.names build/linked/driver.names
	awk -v reaches='$(REACHES)' 'BEGIN { split(reaches, r); for (i in r) own[r[i]] } \
		{ print $$1, ($$1 in own || $$1 ~ /^cu[A-Z]/ ? "__linked_" : "__wrap_") $$1 }' \
		build/linked/runtime.names build/linked/driver.names >build/linked/renamed
	{ cut -d' ' -f2 build/linked/renamed; $(NM) --defined-only $< | awk '$$3 ~ /^(lazy_|case_|dlsym$$)/ { print $$3 }'; } >build/linked/visible
	$(NM) --defined-only $< | awk '$$2 == "u" { print $$3 }' >build/linked/unique
	$(OBJCOPY) --strip-debug --weaken-symbols=build/linked/unique --redefine-syms=build/linked/renamed $< $@
	$(OBJCOPY) --keep-global-symbols=build/linked/visible $@

# A program may have functions or variables of its own that are called as the driver's functions are.
build/linked/driver.S: build/linked/driver.names linked/linked.mk
	{ echo .text; awk '{ printf ".weak %s\n.type %s, @function\n%s: endbr64\njmp __linked_%s\n", $$1, $$1, $$1, $$1 }' $<; \
		echo '.section .note.GNU-stack, "", @progbits'; } >$@

build/linked/driver.o: build/linked/driver.S
	$(CC) -c -o $@ $<

build/linked/lazy.o: build/linked/core.o build/linked/driver.o
	$(CXX) -r -nostdlib -o $@ $^

# The runtime's functions by name. A weak reference makes the linker take no object, hence one that
# is not weak: each CUDA runtime has the function, and no other library's will do.
build/linked/table.S: build/linked/runtime.names linked/linked.mk
	{ echo '.section .data.rel.ro, "aw"'; echo '.globl case_runtime'; echo '.hidden case_runtime'; echo '.p2align 3'; echo 'case_runtime:'; \
		awk '{ printf ".weak __real_%s\n.hidden __real_%s\n.quad 9f, __real_%s\n.pushsection .rodata.str1.1, \"aMS\", @progbits, 1\n9: .string \"%s\"\n.popsection\n", $$1, $$1, $$1, $$1 }' $<; \
		printf '.hidden cudaRuntimeGetVersion\n.quad 9f, cudaRuntimeGetVersion\n.quad 0, 0\n.section .rodata.str1.1, "aMS", @progbits, 1\n9: .string "cudaRuntimeGetVersion"\n'; \
		echo '.section .note.GNU-stack, "", @progbits'; } >$@

build/linked/table.o: build/linked/table.S
	$(CC) -c -o $@ $<

build/linked/dlopen.o: linked/call.S linked/linked.mk | build/linked
	$(CC) -DNAME=__wrap_dlopen -DBEHIND=__real_dlopen -c -o $@ $<
build/linked/reach_dlopen.o: linked/call.S linked/linked.mk | build/linked
	$(CC) -DNAME=__wrap_dlopen -DBEHIND=__real_dlopen -DREACHES -c -o $@ $<
build/linked/reach_%.o: linked/call.S linked/linked.mk | build/linked
	$(CC) -DNAME=__wrap_$* -DBEHIND=__linked_$* -DREACHES -c -o $@ $<

libcase_lazy.a: build/linked/lazy.o build/linked/table.o build/linked/dlopen.o
	rm -f $@
	$(AR) rcs $@ $^

libcase_reach.a: $(patsubst %,build/linked/reach_%.o,dlopen $(REACHES))
	rm -f $@
	$(AR) rcs $@ $^

libcase_lazy.link: build/linked/runtime.names build/linked/driver.names linked/linked.mk
	{ sed 's/^/--wrap=/' build/linked/runtime.names; echo --wrap=dlopen; \
		{ cat build/linked/driver.names; printf '%s\n' $(EXPORTED); } | sed 's/^/--export-dynamic-symbol=/'; } >$@

linked: libcase_lazy.a libcase_reach.a libcase_lazy.link $(PROBE)

.PHONY: linked
