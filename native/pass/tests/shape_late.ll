; Dimensions that are read from memory behind the entry are told when the launch comes.
;
; CHECK: launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: call void @case_static_begin(ptr %case.task, i64 {{%.*}}, i64 0, i64 0, i32 0,
; CHECK: [[GRID:%.*]] = load i64, ptr %where
; CHECK: [[X:%.*]] = and i64 [[GRID]], 4294967295
; CHECK: call i64 @llvm.umin.i64(i64 [[X]], i64 2147483647)
; CHECK: call void @case_static_shape(ptr %case.task, i64 {{%.*}}, i32 128, ptr @{{.*}}, i64 {{.*}})
; CHECK-NEXT: call i32 @__cudaPushCallConfiguration(i64 [[GRID]],

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, ptr %where) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %grid = load i64, ptr %where
  %p = call i32 @__cudaPushCallConfiguration(i64 %grid, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
