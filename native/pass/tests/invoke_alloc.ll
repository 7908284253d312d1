; An allocation that is an invoke stays one.
;
; CHECK: launch of k: static
; CHECK: call void @case_static_begin(
; CHECK-NEXT: invoke i32 @case_static_malloc(ptr %case.task, ptr @cudaMalloc, ptr %a, i64 %n)
; CHECK-NEXT: to label %{{.*}} unwind label %landing

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) personality ptr @__gxx_personality_v0 {
  %a = alloca ptr
  %m = invoke i32 @cudaMalloc(ptr %a, i64 %n) to label %fine unwind label %landing

landing:
  %e = landingpad { ptr, i32 } cleanup
  resume { ptr, i32 } %e

fine:
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
declare i32 @__gxx_personality_v0(...)
