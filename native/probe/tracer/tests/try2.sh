set -u
make native >/tmp/native.log 2>&1 || tail -5 /tmp/native.log
make -C benchmarks/rodinia -j16 >/tmp/suite.log 2>&1 || tail -5 /tmp/suite.log
mkdir -p data; S=$PWD/bin/suite; T=$PWD/native/probe/tracer/libcasetrace.so; date +%T
ms() { local s=$(date +%s%N); "$@" >/tmp/o 2>/tmp/e || { echo "rc $?"; tail -2 /tmp/e; }; echo $(( ($(date +%s%N)-s)/1000 )); }
raw() { n=$1; shift; echo "== raw $*"; for i in $(seq $n); do rm -rf /tmp/t; mkdir /tmp/t; a=$(ms "$@"); b=$(CUDA_INJECTION64_PATH=$T CASE_TRACE_DIR=/tmp/t ms "$@"); echo "us untraced $a traced $b"; done; python3 native/probe/tracer/tests/dump.py /tmp/t | cut -c1-300; }
raw 7 $S/needle 8192 10
raw 7 $S/srad_v1/srad 100 0.5 2000 2000
raw 5 $S/srad_v2/srad 4096 4096 0 127 0 127 0.5 2
cat > /tmp/m.yaml <<'Y'
name: small
jobs:
  - {name: needle, program: needle, args: "16384 10", memory: 2147745800, blocks: 959, threads_per_block: 16}
  - {name: srad1, program: srad_v1/srad, args: "100 0.5 4000 4000", memory: 520000000, blocks: 31250, threads_per_block: 512}
  - {name: needle2, program: needle, args: "8192 10", memory: 540000000, blocks: 512, threads_per_block: 16}
  - {name: srad2, program: srad_v2/srad, args: "4096 4096 0 127 0 127 0.5 2", memory: 402653184, blocks: 65536, threads_per_block: 256}
  - {name: lavaMD, program: lavaMD, args: "-boxes1d 60", memory: 1700000000, blocks: 216000, threads_per_block: 128}
Y
C=bin/trace/caserun
for s in sa case-alg3; do for f in "" --trace; do $C mix /tmp/m.yaml --sched $s $f --db /tmp/r.db >/tmp/o 2>/tmp/e; echo "$s $f rc $?"; grep -E "makespan|mean turn|resident|tracer|  ok|job " /tmp/o; tail -3 /tmp/e; done; done
$C report 4 --slowdown 2 --db /tmp/r.db | tail -22
$C report 4 -v --db /tmp/r.db | grep -A14 "^kernels of\|^events of" | cut -c1-150
echo "select run_id,count(*),min(start_s),max(end_s) from kernel group by run_id; select run_id,kind,count(*),sum(bytes) from copy group by 1,2" > /tmp/q
python3 -c "
import sqlite3;c=sqlite3.connect('/tmp/r.db')
for q in open('/tmp/q').read().split(';'): print(c.execute(q).fetchall())
print(c.execute('select run_id,device_index,resident_mean from device').fetchall(), c.execute('select id,makespan_s,turnaround_mean_s,tracer_kernels from run').fetchall(), c.execute('select start_s,end_s from job').fetchall())"
ls -l /tmp/r.db; date +%T
