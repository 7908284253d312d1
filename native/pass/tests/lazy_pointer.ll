; A kernel that is called through a pointer: the launch is in the report, and another launch is static.
;
; CHECK: remark: {{.*}}launch of k: static
; CHECK: remark: {{.*}}launch of kernel: lazy: its kernel is called through a pointer
; CHECK: {"file":{{.*}},"function":"f","kernel":"k","line":0,"task":"static"}
; CHECK: {"file":{{.*}},"function":"g","kernel":"kernel","line":0,"task":"lazy","why":"its kernel is called through a pointer"}
; CHECK-LABEL: define void @f(
; CHECK: call void @case_static_begin(
; CHECK-LABEL: define void @g(
; CHECK-NOT: call void @case_static_begin(

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %x = load ptr, ptr %a
  %c = call i32 @__cudaPushCallConfiguration(i64 1, i32 1, i64 1, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPf(ptr %x)
  %r = call i32 @cudaFree(ptr %x)
  ret void
}

define void @g(i64 %n, ptr %kernel) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %x = load ptr, ptr %a
  %c = call i32 @__cudaPushCallConfiguration(i64 1, i32 1, i64 1, i32 1, i64 0, ptr null)
  %failed = icmp ne i32 %c, 0
  br i1 %failed, label %end, label %launch
launch:
  call void %kernel(ptr %x)
  br label %end
end:
  %r = call i32 @cudaFree(ptr %x)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
