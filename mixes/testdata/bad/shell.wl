needle 16384 10; rm x
needle 16384 10 && true
needle 16384 10 > out
needle $N 10
needle `n` 10
needle "16384" 10
needle '16384' 10
needle 16384 10 | sort
bfs *.txt
cat a b | needle 16384 10
cat a |needle 16384 10
cat -n a | needle 16384 10
OMP=1 needle 16384 10
  nvprof /x/needle 16384 10
/x/srad 100 0.5 100
/x/hotspot 512
é/needle é;
