; What a kernel does that cannot be shown to give the same again. It looks all the same: the mix may say that it may begin again.
; PASSES: case-stop
; CHECK: remark: {{.*}} kernel inplace stops where the mix says that it may begin again: it reads and writes its parameter 1
; CHECK: remark: {{.*}} kernel alias stops where the mix says that it may begin again: it writes its parameter 2 and reads its parameter 1, which may be the same
; CHECK: remark: {{.*}} kernel behind stops where the mix says that it may begin again: it writes memory that it finds through a pointer and reads its parameter 1, which may be the same
; CHECK: remark: {{.*}} kernel atomic stops where the mix says that it may begin again: it does an atomic operation
; CHECK: remark: {{.*}} kernel watches stops where the mix says that it may begin again: it reads memory that others may change meanwhile
; CHECK: remark: {{.*}} kernel calls stops where the mix says that it may begin again: it calls unknown
; CHECK: remark: {{.*}} kernel global stops where the mix says that it may begin again: it writes its parameter 1 and reads state, which may be the same
; CHECK-NOT: @case_restartable_
; CHECK-LABEL: define void @inplace
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-LABEL: define void @alias
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-LABEL: define void @behind
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-LABEL: define void @atomic
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-LABEL: define void @watches
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-LABEL: define void @calls
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-LABEL: define void @global
; CHECK: load volatile i32, ptr addrspace(1) @case_stop_words
; Functions that are not kernels do not look.
; CHECK-LABEL: define void @helper
; CHECK-NOT: @case_stop_words
; A kernel whose author has placed the points is left as it is.
; CHECK-LABEL: define void @authored
; CHECK-NEXT: load
; CHECK-NOT: load volatile
target triple = "nvptx64-nvidia-cuda"

@case_stop_words = addrspace(1) externally_initialized global [2 x i32] zeroinitializer

@state = addrspace(1) global i32 0
declare void @unknown(ptr)

define void @inplace(ptr noalias %x, ptr %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = load i32, ptr %x
  %w = add i32 %v, 1
  store i32 %w, ptr %x
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @alias(ptr %x, ptr %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = load i32, ptr %x
  store i32 %v, ptr %y
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @behind(ptr %x, ptr noalias %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = load ptr, ptr %x
  %w = load i32, ptr %y
  store i32 %w, ptr %v
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @atomic(ptr %x, ptr %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = atomicrmw add ptr %x, i32 1 seq_cst
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @watches(ptr %x, ptr %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = load volatile i32, ptr %x
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @calls(ptr %x, ptr %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  call void @unknown(ptr %x)
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @global(ptr %x, ptr %y, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %v = load i32, ptr addrspace(1) @state
  store i32 %v, ptr %x
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @helper(ptr %x, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  store i32 %i, ptr %x
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

define void @authored(ptr %x, i32 %n) {
  %asked = load i32, ptr addrspace(1) @case_stop_words
  br label %loop
loop:
  store i32 %asked, ptr %x
  br label %loop
}

!nvvm.annotations = !{!0, !1, !2, !3, !4, !5, !6, !7}
!0 = !{ptr @inplace, !"kernel", i32 1}
!1 = !{ptr @alias, !"kernel", i32 1}
!2 = !{ptr @behind, !"kernel", i32 1}
!3 = !{ptr @atomic, !"kernel", i32 1}
!4 = !{ptr @watches, !"kernel", i32 1}
!5 = !{ptr @calls, !"kernel", i32 1}
!6 = !{ptr @global, !"kernel", i32 1}
!7 = !{ptr @authored, !"kernel", i32 1}
