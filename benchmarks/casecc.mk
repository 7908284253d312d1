# Builds a suite a second time, by CASE's compiler pass (docs/design/casecc.md). The including Makefile
# builds into $(SUITE) with $(NVCC). What the compiler is made of is in $(COMPILER).
CASECC := ../../native/pass/casecc

casecc:
	$(MAKE) -C ../../native/pass
	$(MAKE) -C ../../native/lazy linked
	$(MAKE) SUITE=$(SUITE)-casecc NVCC=$(CASECC) \
		COMPILER="$(CASECC) $$(echo ../../native/pass/build/*/case.so) ../../native/lazy/libcase_lazy.a"

.PHONY: casecc
