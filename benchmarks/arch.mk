# The machine code that the CUDA compiler makes. ARCH is one architecture, such as sm_90, or
# several. Default: those of this machine's GPUs, or sm_90 if there is none. CODE is the
# compiler's option. $(SUITE)/obj/arch changes when ARCH does: what is compiled depends on it.
ifndef ARCH
ARCH := $(sort $(patsubst %,sm_%,$(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -x '[0-9]*[.][0-9]'))))
endif
ifeq ($(strip $(ARCH)),)
ARCH := sm_90
endif
gencode = -gencode 'arch=compute_$(1:sm_%=%),code=[$(1),compute_$(1:sm_%=%)]'
CODE := $(if $(word 2,$(ARCH)),$(foreach arch,$(ARCH),$(call gencode,$(arch))),-arch=$(strip $(ARCH)))

$(SUITE)/obj/arch: FORCE
	@mkdir -p $(@D)
	@[ "$$(cat $@ 2>/dev/null)" = "$(ARCH)" ] || echo "$(ARCH)" >$@

.PHONY: FORCE
