; A free of one of two objects through a PHI: which is not known, so the charge stays.
;
; CHECK: launch of m: static
; CHECK: call i32 @cudaFree(
; CHECK-NOT: case_static_end(
; CHECK: call void @case_static_leave(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, i1 %which) {
  %a = alloca ptr
  %b = alloca ptr
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %m2 = call i32 @cudaMalloc(ptr %b, i64 %n)
  %p1 = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x1 = load ptr, ptr %a
  %y1 = load ptr, ptr %b
  call void @_Z16__device_stub__mPfS_(ptr %x1, ptr %y1)
  br i1 %which, label %one, label %two

one:
  %l = load ptr, ptr %a
  br label %give

two:
  %r = load ptr, ptr %b
  br label %give

give:
  %v = phi ptr [ %l, %one ], [ %r, %two ]
  %g = call i32 @cudaFree(ptr %v)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__mPfS_(ptr, ptr)
