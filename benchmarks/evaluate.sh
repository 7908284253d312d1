#!/usr/bin/env bash
# Runs the sweep of docs/evaluation: W1 to W8 under sa, cg, case-alg2 and case-alg3 on all
# GPUs of this machine, each limited to 16 GiB.
#
#   benchmarks/evaluate.sh DIR [SECONDS]
#
# DIR gets the store, its bundle, and the paper's tables and figures beside the published
# ones. A call continues where an earlier call stopped. If DIR has only the bundle, as
# docs/evaluation does, the call continues from the bundle. With SECONDS, no run starts that
# would end later.
#
# Environment:
#   MIXES     W1..W8; on machines that are lent for a time choose mixes that finish on one
#             machine, so that no quotient mixes two machines
#   NEW       not empty: start another sweep in the same store, such as of other mixes
#   REPS      1
#   SEED      17
#   WARMUPS   0: the machine is already warm
#   NODE      local
#
# Needs bin/caserun, make native, make cuda and caserun data. Exit status: caserun sweep's.
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || [ $# = 2 ] || { sed -n '5p' "$0" | cut -c3- >&2; exit 2; }
dir=$1 limit=${2:+--time-limit=$2s}
mkdir -p "$dir"
db=$dir/caserun.db bundle=$dir/sweep.tar.gz
[ -e "$db" ] || [ ! -e "$bundle" ] || tar xzf "$bundle" -C "$dir" caserun.db

status=0
if [ -e "$db" ] && [ -z "${NEW:-}" ]; then
	bin/caserun sweep --resume latest --db "$db" $limit || status=$?
else
	bin/caserun sweep --mixes "${MIXES:-W1..W8}" --scheds sa,cg,case-alg2,case-alg3 --mem-cap 16GiB --node "${NODE:-local}" \
		--reps "${REPS:-1}" --warmups "${WARMUPS:-0}" --seed "${SEED:-17}" --name evaluation --tag evaluation \
		--db "$db" --runs "$dir/runs" $limit || status=$?
fi
bin/caserun export --db "$db" --bundle "$bundle" --force
bin/caserun paper --db "$db" --tag evaluation --out "$dir/paper" --force >/dev/null || [ $? = 4 ]
exit $status
