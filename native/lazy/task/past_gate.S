/* past_gate.S: calls of functions that may give work past the gate (bypass.cc). Each saves the registers that carry
 * parameters (System V ABI, AMD64), and jumps to the function that past_gate finds. The stack is as it was.
 */
	.text
	.set index, 0

	.globl past_gate_calls
	.hidden past_gate_calls
	.p2align 4
past_gate_calls:
	.rept 1024
	.p2align 4
	endbr64
	movl $index, %r11d
	jmp past_gate_first
	.set index, index + 1
	.endr

	.type past_gate_first, @function
	.p2align 4
past_gate_first:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq $192, %rsp
	movq %rdi, 0(%rsp)
	movq %rsi, 8(%rsp)
	movq %rdx, 16(%rsp)
	movq %rcx, 24(%rsp)
	movq %r8, 32(%rsp)
	movq %r9, 40(%rsp)
	movq %rax, 48(%rsp)	/* how many vector registers carry parameters, of a function with any number of them */
	movups %xmm0, 64(%rsp)
	movups %xmm1, 80(%rsp)
	movups %xmm2, 96(%rsp)
	movups %xmm3, 112(%rsp)
	movups %xmm4, 128(%rsp)
	movups %xmm5, 144(%rsp)
	movups %xmm6, 160(%rsp)
	movups %xmm7, 176(%rsp)
	movl %r11d, %edi
	call past_gate
	movq %rax, %r11
	movq 0(%rsp), %rdi
	movq 8(%rsp), %rsi
	movq 16(%rsp), %rdx
	movq 24(%rsp), %rcx
	movq 32(%rsp), %r8
	movq 40(%rsp), %r9
	movq 48(%rsp), %rax
	movups 64(%rsp), %xmm0
	movups 80(%rsp), %xmm1
	movups 96(%rsp), %xmm2
	movups 112(%rsp), %xmm3
	movups 128(%rsp), %xmm4
	movups 144(%rsp), %xmm5
	movups 160(%rsp), %xmm6
	movups 176(%rsp), %xmm7
	leave
	.cfi_def_cfa %rsp, 8
	jmp *%r11
	.cfi_endproc
	.size past_gate_first, . - past_gate_first

	.hidden past_gate
	.section .note.GNU-stack, "", @progbits
