; cudaLaunchKernelExC has its configuration in memory.
;
; CHECK: remark: {{.*}}launch of kernel: lazy: its configuration is in memory
; CHECK-NOT: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f(i64 %n, ptr %config, ptr %args) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %r = call i32 @cudaLaunchKernelExC(ptr %config, ptr @f, ptr %args)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaLaunchKernelExC(ptr, ptr, ptr)
