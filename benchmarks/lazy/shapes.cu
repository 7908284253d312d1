/* Memory with a shape: pitched and three-dimensional allocations, arrays read
 * through texture objects and written through a surface object, and the 2D and
 * 3D copies and sets, most of them before the first launch. */
#include "common.h"

static __global__ void read_textures(uint32_t *out, cudaTextureObject_t plane, cudaTextureObject_t line,
                                     cudaSurfaceObject_t surface, int width, int height)
{
	const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

	if (x >= width || y >= height)
		return;
	const uint32_t value = tex2D<uint32_t>(plane, x, y) * 3 + tex1Dfetch<uint32_t>(line, x + y);
	out[y * width + x] = value;
	surf2Dwrite(value ^ 0x55u, surface, x * (int)sizeof(uint32_t), y);
}

static __global__ void scale_rows(char *rows, size_t pitch, int width, int height)
{
	const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

	if (x < width && y < height)
		reinterpret_cast<uint32_t *>(rows + y * pitch)[x] *= 2 * y + 3;
}

static cudaTextureObject_t texture_of(const cudaResourceDesc &resource)
{
	cudaTextureObject_t texture;
	cudaTextureDesc how = {};

	how.readMode = cudaReadModeElementType;
	how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
	CUDA(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
	return texture;
}

int main()
{
	enum { WIDTH = 333, HEIGHT = 217, DEPTH = 9 };
	const size_t row = WIDTH * sizeof(uint32_t), cells = WIDTH * HEIGHT;
	const std::vector<uint32_t> first = numbers(cells, 1), second = numbers(cells * DEPTH, 2);
	std::vector<uint32_t> back(cells), cube_back(cells * DEPTH);
	const dim3 block(16, 16), grid((WIDTH + 15) / 16, (HEIGHT + 15) / 16);
	digest sum;

	char *pitched;
	size_t pitch = 0;
	CUDA(cudaMallocPitch((void **)&pitched, &pitch, row, HEIGHT));
	expect(pitch >= row, "pitch");
	CUDA(cudaMemset2D(pitched, pitch, 0x33, row, HEIGHT));
	CUDA(cudaMemcpy2D(pitched + pitch, pitch, first.data(), row, row, HEIGHT - 2, cudaMemcpyHostToDevice));

	cudaPitchedPtr cube;
	const cudaExtent extent = make_cudaExtent(row, HEIGHT, DEPTH);
	CUDA(cudaMalloc3D(&cube, extent));
	CUDA(cudaMemset3D(cube, 0x44, extent));
	cudaMemcpy3DParms in = {};
	in.srcPtr = make_cudaPitchedPtr((void *)second.data(), row, WIDTH, HEIGHT);
	in.dstPtr = cube;
	in.extent = make_cudaExtent(row, HEIGHT - 5, DEPTH - 1);
	in.kind = cudaMemcpyHostToDevice;
	CUDA(cudaMemcpy3D(&in));

	const cudaChannelFormatDesc format = cudaCreateChannelDesc<uint32_t>();
	cudaArray_t plane, written;
	CUDA(cudaMallocArray(&plane, &format, WIDTH, HEIGHT));
	CUDA(cudaMallocArray(&written, &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
	CUDA(cudaMemcpy2DToArray(plane, 0, 0, first.data(), row, row, HEIGHT, cudaMemcpyHostToDevice));
	cudaArray_t solid;
	CUDA(cudaMalloc3DArray(&solid, &format, make_cudaExtent(WIDTH, HEIGHT, DEPTH)));
	cudaMemcpy3DParms to_solid = {};
	to_solid.srcPtr = make_cudaPitchedPtr((void *)second.data(), row, WIDTH, HEIGHT);
	to_solid.dstArray = solid;
	to_solid.extent = make_cudaExtent(WIDTH, HEIGHT, DEPTH);
	to_solid.kind = cudaMemcpyHostToDevice;
	CUDA(cudaMemcpy3D(&to_solid));

	uint32_t *line = device_alloc<uint32_t>(WIDTH + HEIGHT), *out = device_alloc<uint32_t>(cells);
	to_device(line, numbers(WIDTH + HEIGHT, 3));
	cudaResourceDesc resource = {};
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = plane;
	const cudaTextureObject_t plane_texture = texture_of(resource);
	resource.res.array.array = written;
	cudaSurfaceObject_t surface;
	CUDA(cudaCreateSurfaceObject(&surface, &resource));
	resource = {};
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = line;
	resource.res.linear.desc = format;
	resource.res.linear.sizeInBytes = (WIDTH + HEIGHT) * sizeof(uint32_t);
	const cudaTextureObject_t line_texture = texture_of(resource);

	scale_rows<<<grid, block>>>(pitched, pitch, WIDTH, HEIGHT);
	CUDA_LAUNCHED();
	read_textures<<<grid, block>>>(out, plane_texture, line_texture, surface, WIDTH, HEIGHT);
	CUDA_LAUNCHED();
	for (int z = 0; z < DEPTH; z++) {
		char *slice = static_cast<char *>(cube.ptr) + z * cube.pitch * HEIGHT;
		scale_rows<<<grid, block>>>(slice, cube.pitch, WIDTH, HEIGHT);
		CUDA_LAUNCHED();
	}
	sum.add_device(out, cells);
	CUDA(cudaMemcpy2D(back.data(), row, pitched, pitch, row, HEIGHT, cudaMemcpyDeviceToHost));
	sum.add(back);
	CUDA(cudaMemcpy2DFromArray(back.data(), row, written, 0, 0, row, HEIGHT, cudaMemcpyDeviceToHost));
	sum.add(back);
	cudaMemcpy3DParms from = {};
	from.srcPtr = cube;
	from.dstPtr = make_cudaPitchedPtr(cube_back.data(), row, WIDTH, HEIGHT);
	from.extent = extent;
	from.kind = cudaMemcpyDeviceToHost;
	CUDA(cudaMemcpy3D(&from));
	sum.add(cube_back);
	from.srcPtr = cudaPitchedPtr();
	from.srcArray = solid;
	from.extent = make_cudaExtent(WIDTH, HEIGHT, DEPTH);
	CUDA(cudaMemcpy3D(&from));
	sum.add(cube_back);

	CUDA(cudaDestroyTextureObject(plane_texture));
	CUDA(cudaDestroyTextureObject(line_texture));
	CUDA(cudaDestroySurfaceObject(surface));
	CUDA(cudaFreeArray(plane));
	CUDA(cudaFreeArray(written));
	CUDA(cudaFreeArray(solid));
	CUDA(cudaFree(pitched));
	CUDA(cudaFree(cube.ptr));
	CUDA(cudaFree(line));
	CUDA(cudaFree(out));
	sum.print();
	return 0;
}
