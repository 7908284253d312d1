; One of two allocations, as the program decides: their sum would be asked for and never used.
;
; CHECK: remark: {{.*}}launch of k: lazy: an allocation is not made on every path
; CHECK-NOT: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, i64 %more, i1 %big) {
  %a = alloca ptr
  br i1 %big, label %one, label %two

one:
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %more)
  br label %go

two:
  %m2 = call i32 @cudaMalloc(ptr %a, i64 %n)
  br label %go

go:
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
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
