&
needle 16384 10 & needle 16384 10 &
wait 17
wait &
nvprof
nvprof --print-gpu-trace
nvprof --gpu needle 16384 10
nvprof -o
nvprof -ofile needle 16384 10
nvprof -- 
nsys needle 16384 10
nsys profile -o x --
time -v nvprof -m ipc /x/hotspot 512
nvprof --metrics "a b" needle 16384 10
cat a | nvprof
