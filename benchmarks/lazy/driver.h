/* driver.h: checks for the two users of the driver API, and a kernel as PTX that the
 * driver compiles: x[i] = x[i] * 3 + i for i < n. */
#ifndef LAZY_DRIVER_H
#define LAZY_DRIVER_H

#include <cuda.h>

#include "common.h"

inline void check_driver(CUresult result, const char *call, int line)
{
	const char *name = "?";

	if (result == CUDA_SUCCESS)
		return;
	cuGetErrorName(result, &name);
	fflush(stdout);
	fprintf(stderr, "line %d: %s in %s\n", line, name, call);
	exit(result == CUDA_ERROR_OUT_OF_MEMORY ? 2 : 3);
}
#define DRIVER(call) check_driver((call), #call, __LINE__)

static const char triple_ptx[] =
	".version 6.4\n"
	".target sm_70\n"
	".address_size 64\n"
	".visible .entry triple(.param .u64 x, .param .u32 n)\n"
	"{\n"
	"	.reg .pred %p;\n"
	"	.reg .b32 %i, %n, %t, %b, %d, %v;\n"
	"	.reg .b64 %a, %o;\n"
	"	ld.param.u64 %a, [x];\n"
	"	ld.param.u32 %n, [n];\n"
	"	mov.u32 %t, %tid.x;\n"
	"	mov.u32 %b, %ctaid.x;\n"
	"	mov.u32 %d, %ntid.x;\n"
	"	mad.lo.u32 %i, %b, %d, %t;\n"
	"	setp.ge.u32 %p, %i, %n;\n"
	"	@%p bra done;\n"
	"	cvta.to.global.u64 %a, %a;\n"
	"	mul.wide.u32 %o, %i, 4;\n"
	"	add.u64 %a, %a, %o;\n"
	"	ld.global.u32 %v, [%a];\n"
	"	mad.lo.u32 %v, %v, 3, %i;\n"
	"	st.global.u32 [%a], %v;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

#endif
