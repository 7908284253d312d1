; Page-locked memory before the task would make a context on a device that nobody has granted. The
; module says so (4), and the lazy runtime keeps the context for the task's device. The task stays
; static.
;
; CHECK: launch of VecAdd: static
; CHECK-LABEL: define i32 @main(
; CHECK: call i32 @cudaFree(ptr null)
; CHECK: call i32 @cudaMallocHost(
; CHECK: call void @case_static_begin(
; CHECK: call void @case_static_elsewhere(i32 4)

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define i32 @main(i32 %n, ptr %A, ptr %B, ptr %C) {
  %dA = alloca ptr
  %dB = alloca ptr
  %dC = alloca ptr
  %wide = zext i32 %n to i64
  %bytes = shl i64 %wide, 2
  %host = alloca ptr
  %context = call i32 @cudaFree(ptr null)
  %pinned = call i32 @cudaMallocHost(ptr %host, i64 64)
  %mA = call i32 @cudaMalloc(ptr %dA, i64 %bytes)
  %mB = call i32 @cudaMalloc(ptr %dB, i64 %bytes)
  %mC = call i32 @cudaMalloc(ptr %dC, i64 %bytes)
  %uA = load ptr, ptr %dA
  %cA = call i32 @cudaMemcpy(ptr %uA, ptr %A, i64 %bytes, i32 1)
  %uB = load ptr, ptr %dB
  %cB = call i32 @cudaMemcpy(ptr %uB, ptr %B, i64 %bytes, i32 1)
  %blocks = lshr i64 %wide, 7
  %grid = or i64 %blocks, 4294967296
  %call = call i32 @__cudaPushCallConfiguration(i64 %grid, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %a = load ptr, ptr %dA
  %b = load ptr, ptr %dB
  %c = load ptr, ptr %dC
  call void @_Z21__device_stub__VecAddPiS_S_(ptr %a, ptr %b, ptr %c)
  %uC = load ptr, ptr %dC
  %cC = call i32 @cudaMemcpy(ptr %C, ptr %uC, i64 %bytes, i32 2)
  %fA = load ptr, ptr %dA
  %gA = call i32 @cudaFree(ptr %fA)
  %fB = load ptr, ptr %dB
  %gB = call i32 @cudaFree(ptr %fB)
  %fC = load ptr, ptr %dC
  %gC = call i32 @cudaFree(ptr %fC)
  ret i32 0
}

declare void @_Z21__device_stub__VecAddPiS_S_(ptr, ptr, ptr)

declare i32 @cudaMallocHost(ptr, i64)
declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
