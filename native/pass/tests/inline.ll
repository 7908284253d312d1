; Small functions around allocations and frees are inlined first.
;
; PASSES: case-inline,cgscc(inline),case
; CHECK: launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: call void @case_static_begin(
; CHECK: call i32 @case_static_malloc(
; CHECK: call void @case_static_end(
; CHECK-NEXT: ret void

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %v = call ptr @allocate(i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPf(ptr %v)
  call void @give(ptr %v)
  ret void
}

define ptr @allocate(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %v = load ptr, ptr %a
  ret ptr %v
}

define void @give(ptr %v) {
  %g = call i32 @cudaFree(ptr %v)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
