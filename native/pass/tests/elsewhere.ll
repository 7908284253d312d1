; A module without static tasks says at its start that it uses devices; 1: and that it configures
; or chooses one.
;
; CHECK: @llvm.global_ctors = appending global {{.*}} i32 101, ptr @case.elsewhere
; CHECK: declare extern_weak void @case_static_elsewhere(i32)
; LLVM 19 has an instruction where LLVM 16 has a constant expression.
; CHECK: icmp ne {{\(?}}ptr @case_static_elsewhere, {{(ptr )?}}null
; CHECK: call void @case_static_elsewhere(i32 1)

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @choose() {
  %e = call i32 @cudaSetDevice(i32 1)
  ret void
}

declare i32 @cudaSetDevice(i32)
