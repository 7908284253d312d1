/* boxes.h: the boxes that a YOLO network found. Its heads are decoded as YOLOv3 (arXiv
 * 1804.02767) defines, without boxes that overlap a better box. */
#ifndef DARKNET_BOXES_H
#define DARKNET_BOXES_H

#include "network.h"

struct box {
	float x, y, w, h; /* centre and size, as fractions of the image */
	std::vector<float> chances; /* by class; 0 if below the threshold */
};

/* decode_head adds the boxes of one image to *boxes. values are the outputs of
 * net.layers[head]. The image was letterboxed from image_w x image_h. */
void decode_head(const network &net, size_t head, const float *values, int image_w, int image_h, float threshold,
                 std::vector<box> *boxes);

/* overlap: intersection over union. */
float overlap(const box &a, const box &b);

/* suppress sets a box's chance of a class to 0 if another box has a better chance of the
 * class and they overlap by more than `limit`. */
void suppress(std::vector<box> *boxes, float limit);

#endif
