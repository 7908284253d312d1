; What is inlined is bounded, though each function is small: f4 would have 10,000 allocations in
; it. Functions that call each other stay as they are.
;
; PASSES: case-inline,cgscc(inline),case
; CHECK: launch of k: lazy
; CHECK-LABEL: define void @f4(
; CHECK: call void @f{{[123]}}(
; CHECK-LABEL: define void @ping(
; CHECK: call void @p{{[io]}}ng(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f0() {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 8)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %v = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %v)
  ret void
}

define void @f1() {
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  call void @f0()
  ret void
}

define void @f2() {
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  call void @f1()
  ret void
}

define void @f3() {
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  call void @f2()
  ret void
}

define void @f4() {
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  call void @f3()
  ret void
}

define void @ping(ptr %v) {
  %g = call i32 @cudaFree(ptr %v)
  call void @pong(ptr %v)
  ret void
}

define void @pong(ptr %v) {
  %g = call i32 @cudaFree(ptr %v)
  call void @ping(ptr %v)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
