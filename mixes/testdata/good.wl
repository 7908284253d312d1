/home/x/rodinia/cuda/nw/needle 32768 10

# a comment
./gpu-rodinia/srad/srad_v1/srad   100 0.5 15000 15000   
srad_v2/srad 64 128 0 1 0 1 0.5 2
/y/bfs /data/bfs/inputGen/graph32M.txt
/y/bfs /data/graph1M.txt
	dwt2d	/z/rgb.bmp -d 8192x8192 -f -5 -l 3
cat /x/images-medium.txt | /x/darknet detect /x/cfg/yolov3-tiny.cfg /x/weights/yolov3-tiny.weights
/x/darknet classifier train /x/cfg/cifar.data /x/cfg/cifar_small.cfg
cat /x/names.txt | darknet classifier predict a.data
