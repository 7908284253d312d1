; The task states its largest launch, not its first: 8 blocks of 256 threads rather than 4 of 128.
; It names the kernel and its dynamic shared memory, from which the occupancy follows.
;
; CHECK: launch of k: static
; CHECK: launch of l: static
; CHECK: call void @case_static_begin(ptr %case.task, i64 {{%.*}}, i64 8, i64 0, i32 256, i32 0, ptr @cudaGetDevice, ptr @cudaSetDevice, ptr @_Z16__device_stub__lPf, i64 512)

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p1 = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x1 = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x1)
  %p2 = call i32 @__cudaPushCallConfiguration(i64 4294967304, i32 1, i64 4294967552, i32 1, i64 512, ptr null)
  %x2 = load ptr, ptr %a
  call void @_Z16__device_stub__lPf(ptr %x2)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
declare void @_Z16__device_stub__lPf(ptr)
