#!/usr/bin/env bash
# The first minutes with caserun (make demo): the paper's mix W7 under two schedulers on a simulated node.
set -euo pipefail
cd "$(dirname "$0")/../bin"
rm -f demo.db demo.db-*
./caserun sweep --mixes W7 --scheds sa,case-alg3 --node sim:4xV100 --db demo.db >/dev/null
./caserun compare --db demo.db
cat <<'TEXT'

W7 is 32 jobs of Rodinia, a suite of GPU programs. sa gives each job a GPU of its own. case-alg3
lets jobs share the GPUs as far as their memory fits.

Next (docs/guide/start.md goes on from here):
  bin/caserun report --db bin/demo.db --html bin/demo.html   the runs as a page for a browser
  bin/caserun schedulers                                     the schedulers there are
  bin/caserun mixes new                                      a mix of your own programs
TEXT
if gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU') && [ "$gpus" -gt 0 ]; then
	cat <<TEXT

This machine has $gpus GPUs. To run on them (2.6 GB of input files):
  make native cuda && bin/caserun data && bin/caserun doctor
  bin/caserun mix W7 --sched case-alg3 --mem-cap 16GiB
TEXT
else
	cat <<'TEXT'

This machine has no NVIDIA GPU. Where there is one, the same commands run the jobs themselves:
  make build native cuda && bin/caserun data && bin/caserun doctor
  bin/caserun mix W7 --sched case-alg3 --mem-cap 16GiB
TEXT
fi
