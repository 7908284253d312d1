; A size that is read between allocations is read before them: they do not change it.
;
; CHECK: launch of m: static
; CHECK: call void @fill(ptr %graph)
; CHECK: [[SIZE:%.*]] = load i64, ptr %edges
; CHECK: call void @case_static_begin(
; CHECK-NEXT: call i32 @case_static_malloc({{.*}} %a,
; CHECK: load i64, ptr %edges

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %b = alloca ptr
  %graph = alloca { i64, i64 }
  %edges = getelementptr inbounds { i64, i64 }, ptr %graph, i64 0, i32 1
  call void @fill(ptr %graph)
  %m1 = call i32 @cudaMalloc(ptr %a, i64 %n)
  %h = load ptr, ptr %a
  %c = call i32 @cudaMemcpy(ptr %h, ptr %graph, i64 16, i32 1)
  %size = load i64, ptr %edges
  %m2 = call i32 @cudaMalloc(ptr %b, i64 %size)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  %y = load ptr, ptr %b
  call void @_Z16__device_stub__mPfS_(ptr %x, ptr %y)
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
declare void @_Z16__device_stub__mPfS_(ptr, ptr)
declare void @fill(ptr)
