#!/usr/bin/env bash
# Reads what caserun export --parquet writes with DuckDB, which shares no code with the writer. Needs Go,
# and npm with its registry.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! command -v npm >/dev/null || ! timeout 300 npm install --silent --no-audit --no-fund --prefix "$work" @duckdb/node-api@1.5.6-r.1 >/dev/null; then
  echo ".ci/parquet.sh: npm cannot install DuckDB: Parquet files are NOT read by another program" >&2
  exit 1
fi
go build -o "$work/caserun" ./cmd/caserun
cp .ci/parquet.mjs "$work"
sed -n '/^```sql$/,/^```$/p' docs/reference/exports.md >"$work/queries.md"
cd "$work"
./caserun sweep --mixes W1,W7 --scheds sa,cg:workers=12,case-alg3 --node sim:2xP100 --reps 3 --sim-noise 0.01 >/dev/null 2>&1
./caserun export --parquet tables --jsonl lines >/dev/null
node parquet.mjs tables lines queries.md
