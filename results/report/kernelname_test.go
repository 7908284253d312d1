package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caserun/caserun/results"
)

// Names of kernels of cuBLAS 13 and of others, as collectors/kernels demangles them.
func TestPlainNames(t *testing.T) {
	for name, want := range map[string][2]string{ // without and with template arguments
		"im2col_kernel(unsigned int, float const*, int)":                            {"im2col_kernel", "im2col_kernel"},
		"void cutlass::Kernel2<cutlass_80_simt>(cutlass_80_simt::Params)":           {"cutlass::Kernel2", "cutlass::Kernel2<cutlass_80_simt>"},
		"std::enable_if<!(false), void>::type gemvx::kernel<int, A<B> >(A<B>, int)": {"gemvx::kernel", "gemvx::kernel<int, A<B> >"},
		"(anonymous namespace)::fill<(Kind)3>(float*)":                              {"(anonymous namespace)::fill", "(anonymous namespace)::fill<(Kind)3>"},
		"void run<main::{lambda(int)#1}>(main::{lambda(int)#1})":                    {"run", "run<main::{lambda(int)#1}>"},
		"main::{lambda(int)#1}::operator()(int) const":                              {"main::{lambda(int)#1}::operator()", "main::{lambda(int)#1}::operator()"},
		"Less<int>::operator<<float>(int) const":                                    {"Less::operator<<float>", "Less<int>::operator<<float>"},
		"my_operator(int)":                                                          {"my_operator", "my_operator"},
		"void f<&S::operator->>(S)":                                                 {"f", "f<&S::operator->>"},
		"sm80_xmma_gemm__5x_cublas":                                                 {"sm80_xmma_gemm__5x_cublas", "sm80_xmma_gemm__5x_cublas"},
		"all kernels (simulated)":                                                   {"all kernels (simulated)", "all kernels (simulated)"},
		"broken<int(float)":                                                         {"broken<int(float)", "broken<int(float)"},
		"":                                                                          {"", ""},
	} {
		if got := [2]string{plainName(name, false), plainName(name, true)}; got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// longKernels are names of a traced run of Darknet on an H200, of up to 457 characters.
var longKernels = []string{
	"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
	"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_split_k_kernel__5x_cublas",
	"sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas",
	"void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(cutlass_80_simt_sgemm_64x64_8x5_nn_align1::Params)",
	"void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)",
	"void cublasLt::splitKreduce_kernel<32, 16, int, float, float, float, float, false, float, float, float, true, false, false, false>(cublasLt::cublasSplitKParams<float>, float const*, float const*, float*, float*, float const*, float const*, float const*, float const*, float*, void*, long, float*, int*, float*, float*, float const*, float const*, float const*, float const*, float const*)",
	"std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float, float, float, float, false, true, true, false, 7, false, cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<float const>, cublasGemvTensorStridedBatched<float const>, cublasGemvTensorStridedBatched<float>, float> >(cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<float const>, cublasGemvTensorStridedBatched<float const>, cublasGemvTensorStridedBatched<float>, float>)",
}

func TestShortNamesTellKernelsApart(t *testing.T) {
	short := shortNames(longKernels)
	for i, want := range []string{
		"sm80_xmma_ge…nn_n_tilesize64x64x8_st…ecute_kernel__5x_cublas",
		"sm80_xmma_gemm_f32f32_f32f32_f…ute_split_k_kernel__5x_cublas",
		"sm80_xmma_ge…tn_n_tilesize64x64x8_st…ecute_kernel__5x_cublas",
		"cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>",
		"cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>",
		"cublasLt::splitKreduce_kernel",
		"internal::gemvx::kernel",
	} {
		if got := short[longKernels[i]]; got != want || utf8.RuneCountInString(got) > longestName {
			t.Errorf("%s\nis %q, want %q", longKernels[i], got, want)
		}
	}
	// Nothing tells these apart in so few characters.
	long := strings.Repeat("x", 100)
	twins := shortNames([]string{long + "a" + long, long + "b" + long})
	if a, b := twins[long+"a"+long], twins[long+"b"+long]; a == b || b != a+" (2)" {
		t.Errorf("two kernels are %q and %q", a, b)
	}
}

// A table has short names, and csv the whole ones. On a narrow terminal the table still has a row
// for each kernel.
func TestKernelTableIsNarrow(t *testing.T) {
	var kernels []results.Kernel
	for _, name := range longKernels {
		kernels = append(kernels, results.Kernel{Name: name, Grid: "1x1x1", BusyS: 1.25, Registers: 255, StaticSharedBytes: 48 << 10})
	}
	table := kernelTable(tracedRun(), kernels)
	for _, c := range []struct{ columns, width int }{{0, 120}, {120, 120}, {80, 80}} {
		text := render(t, table, Text, Options{Wide: true, Columns: c.columns})
		if n := longestLine(text); n > c.width {
			t.Errorf("on %d columns a line has %d:\n%s", c.columns, n, text)
		}
		if n := strings.Count(text, "1.25 s"); n < len(kernels) || !strings.Contains(text, "cublasLt::splitKreduce_kernel") {
			t.Errorf("on %d columns there are not %d kernels:\n%s", c.columns, len(kernels), text)
		}
	}
	for _, f := range []Format{CSV, JSON} {
		text := render(t, table, f, Options{})
		for _, name := range longKernels {
			if !strings.Contains(text, name) {
				t.Errorf("%s lacks %s", f, name)
			}
		}
	}
}
