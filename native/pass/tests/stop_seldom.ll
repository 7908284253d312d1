; A loop without others in it is short of work: it looks in each 64th round. One that threads enter from two places does so too.
; PASSES: case-stop
; CHECK-LABEL: define void @fill
; CHECK: %case.round = phi i32 [ %[[NEXT:[0-9]+]], %{{[0-9]+}} ], [ 0, %other ], [ 0, %entry ]
; CHECK: %[[NEXT]] = add i32 %case.round, 1
; CHECK-NEXT: %[[BITS:.*]] = and i32 %[[NEXT]], 63
; CHECK-NEXT: %[[LOOK:.*]] = icmp eq i32 %[[BITS]], 0
; CHECK-NEXT: br i1 %[[LOOK]], label %[[PLACE:.*]], label %{{.*}}
; CHECK: [[PLACE]]:
; CHECK-NEXT: load volatile i32, ptr addrspace(1) @case_stop_words
target triple = "nvptx64-nvidia-cuda"

@case_stop_words = addrspace(1) externally_initialized global [2 x i32] zeroinitializer

define void @fill(ptr %out, i32 %n) {
entry:
  %c = icmp eq i32 %n, 7
  br i1 %c, label %other, label %loop
other:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ 1, %other ], [ %next, %loop ]
  %to = getelementptr i32, ptr %out, i32 %i
  store i32 %i, ptr %to
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}

!nvvm.annotations = !{!0}
!0 = !{ptr @fill, !"kernel", i32 1}
