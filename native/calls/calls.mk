# Generates lists of CUDA's calls into build/calls. Files are named after what generate.awk has.
build/calls/%: ../calls/cuda.calls ../calls/generate.awk
	@mkdir -p build/calls
	awk -v want=$(basename $*) -f ../calls/generate.awk $< >$@

.DELETE_ON_ERROR:
