# build/flags says with which compilers and FLAGS a part is built. What is compiled depends on it, so that
# other flags build the part again. Tests of Go depend on it too (nativetest).
.DELETE_ON_ERROR:
COMPILERS := $(shell for c in $(CC) $(CXX); do $$c --version | head -n 1; done)
BUILT_WITH = $(subst ','\'',$(COMPILERS) $(CC) $(CXX) $(FLAGS))
build/flags: FORCE
	@mkdir -p build
	@echo '$(BUILT_WITH)' | cmp -s - $@ || echo '$(BUILT_WITH)' >$@
FORCE:
.PHONY: FORCE
