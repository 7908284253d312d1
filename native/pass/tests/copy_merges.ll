; An object that only a copy uses is part of the task of the copy's other end.
;
; CHECK: launch of k: static
; CHECK: [[SUM:%.*]] = call i64 @llvm.uadd.sat.i64(
; CHECK: call void @case_static_begin(ptr %case.task, i64 [[SUM]],
; CHECK-NEXT: call i32 @case_static_malloc({{.*}} %a,
; CHECK: call i32 @cudaFree(ptr %f2)
; CHECK-NEXT: call void @case_static_end(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %b = alloca ptr
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %m2 = call i32 @cudaMalloc(ptr %b, i64 %n)
  %u = load ptr, ptr %a
  %w = load ptr, ptr %b
  %c = call i32 @cudaMemcpy(ptr %u, ptr %w, i64 %n, i32 3)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f1 = load ptr, ptr %a
  %g1 = call i32 @cudaFree(ptr %f1)
  %f2 = load ptr, ptr %b
  %g2 = call i32 @cudaFree(ptr %f2)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
