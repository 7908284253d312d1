; A return between: the task ends on both paths.
;
; CHECK: launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: br i1 %stop, label %early, label %go
; CHECK: early:
; CHECK: call i32 @cudaFree(
; CHECK-NEXT: call void @case_static_end(
; CHECK-NEXT: ret void
; CHECK: go:
; CHECK: call i32 @cudaFree(
; CHECK-NEXT: call void @case_static_end(
; CHECK-NEXT: ret void

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, i1 %stop) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  br i1 %stop, label %early, label %go

early:
  %f1 = load ptr, ptr %a
  %g1 = call i32 @cudaFree(ptr %f1)
  ret void

go:
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f2 = load ptr, ptr %a
  %g2 = call i32 @cudaFree(ptr %f2)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
