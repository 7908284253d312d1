; A callee returns the object.
;
; CHECK: remark: {{.*}}launch of k: lazy: a memory object is returned by get
; CHECK-NOT: case_static_begin

target datalayout = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-f80:128-n8:16:32:64-S128"

define void @f() {
  %v = call ptr @get()
  %p = call i32 @__cudaPushCallConfiguration(i64 4294967300, i32 1, i64 4294967424, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPf(ptr %v)
  ret void
}

declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPf(ptr)
declare ptr @get()
