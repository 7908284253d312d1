/* srad.h: one pixel's step of speckle reducing anisotropic diffusion (Yu and Acton, "Speckle
 * reducing anisotropic diffusion", IEEE TIP 11(11), 2002), for srad_v1 and srad_v2. */
#ifndef SRAD_H
#define SRAD_H

#include <math.h>

/* A pixel's differences to its neighbours. */
struct derivatives {
	float *north, *south, *west, *east;
};

/* set_coefficient stores pixel p's derivatives and its diffusion coefficient (equations 31 and
 * 33). q0sqr is the squared coefficient of variation. */
template <typename Index>
__device__ __forceinline__ void set_coefficient(const derivatives &d, float *coefficient, Index p, float here,
                                                float north, float south, float west, float east, float q0sqr)
{
	const float gradient = (north * north + south * south + west * west + east * east) / (here * here);
	const float laplacian = (north + south + west + east) / here;
	const float slope = 1 + 0.25f * laplacian;
	const float qsqr = (0.5f * gradient - laplacian * laplacian / 16) / (slope * slope);
	const float c = 1 / (1 + (qsqr - q0sqr) / (q0sqr * (1 + q0sqr)));

	d.north[p] = north;
	d.south[p] = south;
	d.west[p] = west;
	d.east[p] = east;
	coefficient[p] = fminf(fmaxf(c, 0), 1);
}

/* diffuse_pixel makes one step of the diffusion (equations 58 and 61). here, south and east are
 * the coefficients of the pixel and of its neighbours. */
template <typename Index>
__device__ __forceinline__ void diffuse_pixel(float *image, const derivatives &d, Index p, float here, float south,
                                              float east, float lambda)
{
	const float divergence = here * d.north[p] + south * d.south[p] + here * d.west[p] + east * d.east[p];

	image[p] += 0.25f * lambda * divergence;
}

/* reference_coefficient returns the coefficient in double precision, for --verify. */
inline double reference_coefficient(double here, double n, double s, double w, double e, double q0)
{
	const double L = (n + s + w + e) / here, G = (n * n + s * s + w * w + e * e) / (here * here);
	const double q = (G / 2 - L * L / 16) / ((1 + L / 4) * (1 + L / 4));

	return fmin(fmax(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0), 1);
}
#endif
