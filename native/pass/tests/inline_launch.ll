; A small function that launches is brought to where the memory is allocated, even if clang would
; not inline it: it is called twice, and makes ten calls.
;
; PASSES: case-inline,cgscc(inline),case
; CHECK: launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: call void @case_static_begin(
; CHECK: call i32 @__cudaPushCallConfiguration(
; CHECK: call void @case_static_end(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @run(ptr %v) {
  %e0 = call i32 @cudaGetLastError()
  %e1 = call i32 @cudaGetLastError()
  %e2 = call i32 @cudaGetLastError()
  %e3 = call i32 @cudaGetLastError()
  %e4 = call i32 @cudaGetLastError()
  %e5 = call i32 @cudaGetLastError()
  %e6 = call i32 @cudaGetLastError()
  %e7 = call i32 @cudaGetLastError()
  %e8 = call i32 @cudaGetLastError()
  %e9 = call i32 @cudaGetLastError()
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPf(ptr %v)
  ret void
}

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %x = load ptr, ptr %a
  call void @run(ptr %x)
  call void @run(ptr %x)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaGetLastError()
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
