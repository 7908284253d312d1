#!/usr/bin/env bash
# The example of docs/guide/nightly.md, on a simulated node: a baseline, a night that is
# no slower, a night whose jobs take 10 % longer, and what the gate says of each.
# CASERUN is the program; the argument is an empty directory to work in.
set -euo pipefail
caserun=${CASERUN:-$(cd "$(dirname "$0")/.." && pwd)/bin/caserun}
profiles=$(cd "$(dirname "$0")/../runner/profiles" && pwd)/rodinia31_h200.csv
cd "$1"

# What the jobs do on the simulated node is in app.csv: on a real node, that is
# the programs themselves.
cp "$profiles" app.csv

# night TAG SEED measures; the seed stands for the noise of another night.
night() {
	"$caserun" sweep --mixes W1,W2 --scheds sa,case-alg3 --reps 7 \
		--node sim:4xV100 --profiles app.csv --sim-noise 0.01 --seed "$2" --tag "$1"
}

# gate TAG STATUS holds a night against the baseline and expects an exit status.
gate() {
	local status=0
	"$caserun" regress --baseline baseline --candidate "$1" \
		--max-regression throughput=3%,turnaround=5%,crashes=0 \
		--report-junit "$1.xml" --format markdown >"$1.md" || status=$?
	cat "$1.md"
	if [ "$status" != "$2" ]; then
		echo "the gate's exit status for $1 is $status, want $2" >&2
		exit 1
	fi
}

night baseline 1
night unchanged 2
gate unchanged 0

# The jobs become 10 % slower: every duration of the profiles, by column name.
awk -F, -v OFS=, 'NR == 1 { for (i = 1; i <= NF; i++) duration[i] = $i ~ /_s$/ }
	NR > 1 { for (i = 1; i <= NF; i++) if (duration[i]) $i *= 1.1 }
	{ print }' "$profiles" >app.csv
night slower 3
gate slower 99
grep -q 'failure type="regression"' slower.xml

# A tag without runs must not pass either.
gate missing 2
