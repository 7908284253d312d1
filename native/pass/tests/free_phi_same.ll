; A PHI of two loads of one variable: it is freed.
;
; CHECK: launch of k: static
; CHECK: call i32 @cudaFree(
; CHECK-NEXT: call void @case_static_end(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, i1 %which) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  br i1 %which, label %one, label %two

one:
  %l = load ptr, ptr %a
  br label %give

two:
  %r = load ptr, ptr %a
  br label %give

give:
  %v = phi ptr [ %l, %one ], [ %r, %two ]
  %q = call i32 @cudaDeviceSynchronize()
  br label %now

now:
  %g = call i32 @cudaFree(ptr %v)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaDeviceSynchronize()
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
