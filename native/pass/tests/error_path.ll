; The second allocation fails: the path frees the first, and the task ends there too.
;
; CHECK: launch of m: static
; CHECK: [[SECOND:%.*]] = call i32 @case_static_malloc({{.*}} %b,
; CHECK: icmp eq i32 [[SECOND]], 0
; CHECK: bad:
; CHECK: call i32 @cudaFree(ptr %f1)
; CHECK-NEXT: call void @case_static_end(
; CHECK-NEXT: ret i32 1
; CHECK: good:
; CHECK: call i32 @cudaFree(ptr %f3)
; CHECK-NEXT: call void @case_static_end(
; CHECK-NEXT: ret i32 0

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define i32 @f(i64 %n) {
  %a = alloca ptr
  %b = alloca ptr
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %m2 = call i32 @cudaMalloc(ptr %b, i64 %n)
  %ok = icmp eq i32 %m2, 0
  br i1 %ok, label %good, label %bad

bad:
  %f1 = load ptr, ptr %a
  %g1 = call i32 @cudaFree(ptr %f1)
  ret i32 1

good:
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  %y = load ptr, ptr %b
  call void @_Z16__device_stub__mPfS_(ptr %x, ptr %y)
  %f2 = load ptr, ptr %a
  %g2 = call i32 @cudaFree(ptr %f2)
  %f3 = load ptr, ptr %b
  %g3 = call i32 @cudaFree(ptr %f3)
  ret i32 0
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__mPfS_(ptr, ptr)
