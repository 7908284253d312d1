; Questions about precision are answered as nvcc answers them: both are precise. LLVM answers the others.
; PASSES: case-reflect
; CHECK-LABEL: define i32 @roots
; CHECK-NEXT: ret i32 1
; CHECK-LABEL: define i32 @divisions
; CHECK-NEXT: ret i32 1
; CHECK-LABEL: define i32 @denormals
; CHECK: call i32 @__nvvm_reflect
; CHECK-LABEL: define i32 @variable
; CHECK: call i32 @__nvvm_reflect
target triple = "nvptx64-nvidia-cuda"

@sqrt = private constant [17 x i8] c"__CUDA_PREC_SQRT\00"
@div = private constant [16 x i8] c"__CUDA_PREC_DIV\00"
@ftz = private constant [11 x i8] c"__CUDA_FTZ\00"

declare i32 @__nvvm_reflect(ptr)

define i32 @roots() {
  %r = call i32 @__nvvm_reflect(ptr @sqrt)
  ret i32 %r
}

define i32 @divisions() {
  %r = call i32 @__nvvm_reflect(ptr @div)
  ret i32 %r
}

define i32 @denormals() {
  %r = call i32 @__nvvm_reflect(ptr @ftz)
  ret i32 %r
}

define i32 @variable(ptr %p) {
  %r = call i32 @__nvvm_reflect(ptr %p)
  ret i32 %r
}
