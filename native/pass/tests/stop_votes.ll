; Where threads wait for each other in each round, the block votes. Where they do so elsewhere, the kernel does not look.
; PASSES: case-stop
; CHECK: remark: {{.*}} kernel tiles stops, and begins again
; CHECK: remark: {{.*}} kernel ends does not stop: its threads wait for each other, but not in each round of its loop
; CHECK-NOT: @case_restartable_ends
; CHECK-LABEL: define void @tiles
; CHECK: %case.stop = load volatile i32, ptr addrspace(1) @case_stop_words
; CHECK-NEXT: %[[OWN:.*]] = icmp ne i32 %case.stop, 0
; CHECK-NEXT: %[[WORD:.*]] = zext i1 %[[OWN]] to i32
; CHECK-NEXT: %[[ALL:.*]] = call i32 @llvm.nvvm.barrier0.or(i32 %[[WORD]])
; CHECK-NEXT: %[[ASKED:.*]] = icmp ne i32 %[[ALL]], 0
; CHECK-NEXT: br i1 %[[ASKED]]
; CHECK-LABEL: define void @ends
; CHECK-NOT: case_stop_words
target triple = "nvptx64-nvidia-cuda"

@case_stop_words = addrspace(1) externally_initialized global [2 x i32] zeroinitializer

@tile = addrspace(3) global [32 x i32] undef

declare void @llvm.nvvm.barrier0()

define void @tiles(ptr noalias %out, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  store i32 %i, ptr addrspace(3) @tile
  call void @llvm.nvvm.barrier0()
  %value = load i32, ptr addrspace(3) @tile
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  store i32 %value, ptr %out
  ret void
}

define void @ends(ptr noalias %out, i32 %n) {
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %next = add i32 %i, 1
  store i32 %i, ptr %out
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  call void @llvm.nvvm.barrier0()
  ret void
}

!nvvm.annotations = !{!0, !1}
!0 = !{ptr @tiles, !"kernel", i32 1}
!1 = !{ptr @ends, !"kernel", i32 1}
