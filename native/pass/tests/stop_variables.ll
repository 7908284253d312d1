; The variables with which kernels look whether they are to stop do not keep a task from being static.
;
; CHECK: remark: {{.*}}launch of k: static
; CHECK: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

@w = internal global [2 x i32] undef
@m = internal global i8 undef
@words = private constant [16 x i8] c"case_stop_words\00"
@mark = private constant [19 x i8] c"case_restartable_k\00"

define void @f(i64 %n) {
  %a = alloca ptr
  %m = call i32 @cudaMalloc(ptr %a, i64 %n)
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  %x = load ptr, ptr %a
  call void @_Z16__device_stub__kPf(ptr %x)
  %f = load ptr, ptr %a
  %g = call i32 @cudaFree(ptr %f)
  ret void
}

define internal void @__cuda_register_globals(ptr %h) {
  call void @__cudaRegisterVar(ptr %h, ptr @w, ptr @words, ptr @words, i32 0, i64 8, i32 0, i32 0)
  call void @__cudaRegisterVar(ptr %h, ptr @m, ptr @mark, ptr @mark, i32 0, i64 1, i32 0, i32 0)
  ret void
}

declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @__cudaRegisterVar(ptr, ptr, ptr, ptr, i32, i64, i32, i32)
declare void @_Z16__device_stub__kPf(ptr)
