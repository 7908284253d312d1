; An allocation in a loop that frees it in each round counts once. The task is around the loop.
;
; CHECK: launch of m: static
; CHECK: [[SUM:%.*]] = call i64 @llvm.uadd.sat.i64(
; CHECK: call void @case_static_begin(ptr %case.task, i64 [[SUM]],
; CHECK-NEXT: call i32 @case_static_malloc({{.*}} %a,
; CHECK: loop:
; CHECK-NOT: case_static_begin(
; CHECK: call i32 @case_static_malloc({{.*}} %b,
; CHECK-NOT: case_static_end(
; CHECK: done:
; CHECK: call i32 @cudaFree(
; CHECK-NEXT: call void @case_static_end(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, i32 %rounds) {
  %a = alloca ptr
  %b = alloca ptr
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  br label %loop

loop:
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %m2 = call i32 @cudaMalloc(ptr %b, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  %y = load ptr, ptr %b
  call void @_Z16__device_stub__mPfS_(ptr %x, ptr %y)
  %f2 = load ptr, ptr %b
  %g2 = call i32 @cudaFree(ptr %f2)
  %next = add i32 %i, 1
  %last = icmp eq i32 %next, %rounds
  br i1 %last, label %done, label %loop

done:
  %f1 = load ptr, ptr %a
  %g1 = call i32 @cudaFree(ptr %f1)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__mPfS_(ptr, ptr)
