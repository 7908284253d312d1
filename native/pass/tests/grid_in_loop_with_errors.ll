; A loop that an error leaves too: the grid is bounded by what it is in the last round.
;
; CHECK: launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: [[RUNS:%.*]] = icmp sgt i32 %width, 0
; CHECK: [[NOW:%.*]] = freeze i1 [[RUNS]]
; CHECK: [[BOUND:%.*]] = select i1 [[NOW]], i64 {{.*}}, i64 0
; CHECK: call i64 @llvm.umin.i64(i64 [[BOUND]], i64 2147483647)
; CHECK: call void @case_static_begin(
; CHECK-NOT: case_static_shape

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, i32 %width) {
  %a = alloca ptr
  %runs = icmp sgt i32 %width, 0
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  br i1 %runs, label %loop, label %done

loop:
  %i = phi i32 [ 1, %0 ], [ %next, %more ]
  %x = zext i32 %i to i64
  %grid = or i64 %x, 4294967296
  %p = call i32 @__cudaPushCallConfiguration(i64 %grid, i32 1, i64 4294967312, i32 1, i64 0, ptr null)
  %v = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %v)
  %e = call i32 @cudaGetLastError()
  %bad = icmp ne i32 %e, 0
  br i1 %bad, label %failed, label %more

more:
  %next = add nuw nsw i32 %i, 1
  %last = icmp eq i32 %i, %width
  br i1 %last, label %done, label %loop

failed:
  call void @exit(i32 1)
  unreachable

done:
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaGetLastError()
declare void @exit(i32) noreturn
declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
