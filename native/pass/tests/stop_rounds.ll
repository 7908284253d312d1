; A kernel looks before the back edge of its outermost loop, and may begin again: it does not read the memory that it writes.
; PASSES: case-stop
; CHECK: remark: {{.*}} kernel sweep stops, and begins again
; CHECK: @case_restartable_sweep = addrspace(1) externally_initialized global i8 0
; CHECK-LABEL: define void @sweep
; CHECK: inner.end:
; CHECK-NEXT: %next = add i32 %round, 1
; CHECK-NEXT: %again = icmp slt i32 %next, %rounds
; CHECK-NEXT: %case.stop = load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-NEXT: %[[ASKED:.*]] = icmp ne i32 %case.stop, 0
; CHECK-NEXT: br i1 %[[ASKED]], label %[[STOP:.*]], label %[[ON:.*]]
; CHECK: [[STOP]]:
; CHECK-NEXT: store volatile i32 1, ptr addrspace(1) getelementptr inbounds {{.*}}@case_stop_words
; CHECK-NEXT: ret void
; CHECK: [[ON]]:
; CHECK-NEXT: br i1 %again, label %outer, label %end
target triple = "nvptx64-nvidia-cuda"

@case_stop_words = addrspace(1) externally_initialized global [2 x i32] zeroinitializer

define void @sweep(ptr %in, ptr noalias %out, i32 %n, i32 %rounds) {
entry:
  br label %outer
outer:
  %round = phi i32 [ 0, %entry ], [ %next, %inner.end ]
  br label %inner
inner:
  %i = phi i32 [ 0, %outer ], [ %i.next, %inner ]
  %from = getelementptr float, ptr %in, i32 %i
  %value = load float, ptr %from
  %to = getelementptr float, ptr %out, i32 %i
  store float %value, ptr %to
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %n
  br i1 %more, label %inner, label %inner.end
inner.end:
  %next = add i32 %round, 1
  %again = icmp slt i32 %next, %rounds
  br i1 %again, label %outer, label %end
end:
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{ptr @sweep, !"kernel", i32 1}
