; A module that asks for tasks itself says so, though its uses of devices are in another module.
;
; CHECK: call void @case_static_elsewhere(i32 2)

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @ask(ptr %task) {
  %a = call i32 @case_task_begin(i64 4096, i64 4, i32 32, i64 0, i32 0, ptr %task)
  ret void
}

declare i32 @case_task_begin(i64, i64, i32, i64, i32, ptr)
