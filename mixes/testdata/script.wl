#!/bin/bash
nvprof --print-gpu-trace -o out.nvprof --log-file %p.log /x/needle 32768 10 &
nvprof -f --csv --metrics=ipc -- /x/hotspot 512 2 2 /data/temp_512 &
cat /x/images-medium.txt | /usr/bin/time -v nsys profile -o a --stats=true darknet detect cfg/yolov3-tiny.cfg weights/yolov3-tiny.weights&
wait

bfs /y/graph32M.txt &
compute-sanitizer --tool memcheck gaussian -s 16
wait
wait
hotspot 64 2 2 &
hotspot 64 2 2
lavaMD -boxes1d 100
