set -u
cd native/probe/tracer
date +%T
make 2>&1 | tail -3; ls -l libcasetrace.so; ldd libcasetrace.so | grep -i cupti
nvcc -O2 -arch=sm_90 -o /tmp/launches tests/launches.cu -cudart shared 2>&1 | tail -3
nvcc -O2 -arch=sm_90 -o /tmp/launches_static tests/launches.cu 2>&1 | tail -3
export CUDA_INJECTION64_PATH=$PWD/libcasetrace.so
one() { d=/tmp/t/$1; rm -rf $d; mkdir -p $d; shift; echo "== $d $*"; s=$(date +%s%N); CASE_TRACE_DIR=$d timeout 40 "$@"; echo "rc $? ms $(( ($(date +%s%N)-s)/1000000 ))"; python3 tests/dump.py $d; }
one exit /tmp/launches 100 exit
one static /tmp/launches_static 100 exit
one unsynced /tmp/launches 1000 unsynced
one reset /tmp/launches 100 reset
one kill /tmp/launches 1000 kill
one long /tmp/launches 1000 long
one overlap /tmp/launches 400 overlap
one many /tmp/launches 20000 exit
echo "== untraced"; s=$(date +%s%N); env -u CUDA_INJECTION64_PATH /tmp/launches 20000 exit; echo "ms $(( ($(date +%s%N)-s)/1000000 ))"
export CUDA_MPS_PIPE_DIRECTORY=/tmp/mps CUDA_MPS_LOG_DIRECTORY=/tmp/mpslog; mkdir -p /tmp/mps /tmp/mpslog
env -u CUDA_INJECTION64_PATH nvidia-cuda-mps-control -d
one mps /tmp/launches 100 exit
d=/tmp/t/mps2; mkdir -p $d; for i in 1 2 3; do CASE_TRACE_DIR=$d /tmp/launches 3000 exit & done; wait; python3 tests/dump.py $d
one mpskill /tmp/launches 1000 kill
U=$(nvidia-smi -L | grep -o 'GPU-[0-9a-f-]*'); echo $U
CUDA_VISIBLE_DEVICES=$U one uuid /tmp/launches 10 exit
echo quit | nvidia-cuda-mps-control; date +%T
