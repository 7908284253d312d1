; A call that may throw, with a landing pad that frees and one that the pass adds.
;
; CHECK: launch of k: static
; CHECK-LABEL: define void @f(
; CHECK: landing:
; CHECK: call i32 @cudaFree(ptr %f1)
; CHECK-NEXT: call void @case_static_end(
; CHECK: resume
; CHECK-LABEL: define void @g(
; CHECK: invoke void @helper()
; CHECK-NEXT: to label %{{.*}} unwind label %[[PAD:.*]]
; CHECK: [[PAD]]:
; CHECK-NEXT: landingpad
; CHECK-NEXT: cleanup
; CHECK-NEXT: call void @case_static_leave(
; CHECK-NEXT: resume

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) personality ptr @__gxx_personality_v0 {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  invoke void @helper() to label %fine unwind label %landing

landing:
  %e = landingpad { ptr, i32 } cleanup
  %f1 = load ptr, ptr %a
  %g1 = call i32 @cudaFree(ptr %f1)
  resume { ptr, i32 } %e

fine:
  %f2 = load ptr, ptr %a
  %g2 = call i32 @cudaFree(ptr %f2)
  ret void
}

define void @g(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  call void @helper()
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
declare void @helper()
declare i32 @__gxx_personality_v0(...)
