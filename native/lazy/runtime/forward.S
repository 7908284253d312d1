/* forward.S: entry points of what is forwarded (native/calls), for any parameters a function may have.
 *
 * Each saves the registers that carry parameters (System V ABI, AMD64), lets
 * forward_prepare bind the process and translate them, and jumps to the real
 * function, whose return goes straight to the caller. The stack is as it was.
 * The real function of a SUBMIT or an INSPECT returns here first, for forward_over. So the stack is not as it was.
 */
#ifndef __x86_64__
#error "the lazy runtime's forwarding is written for x86-64"
#endif

	.text
	.set index, 0

	.macro forward name, common
	.globl \name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	movl $index, %r11d
	jmp \common
	.cfi_endproc
	.size \name, . - \name
	.set index, index + 1
	.endm

#define FORWARD(name, what) forward name, forward_common
#define INSPECT(name, what) forward name, forward_inspecting
#define SUBMIT(name, what) forward name, forward_submit
#include "calls/forward.def"

	.macro prepare
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
	movups %xmm0, 48(%rsp)
	movups %xmm1, 64(%rsp)
	movups %xmm2, 80(%rsp)
	movups %xmm3, 96(%rsp)
	movups %xmm4, 112(%rsp)
	movups %xmm5, 128(%rsp)
	movups %xmm6, 144(%rsp)
	movups %xmm7, 160(%rsp)
	movl %r11d, %edi
	movq %rsp, %rsi
	call forward_prepare	/* which leaves what forward_over is given at 176(%rsp), -16(%rbp) */
	movq %rax, %r11
	movq 0(%rsp), %rdi
	movq 8(%rsp), %rsi
	movq 16(%rsp), %rdx
	movq 24(%rsp), %rcx
	movq 32(%rsp), %r8
	movq 40(%rsp), %r9
	movups 48(%rsp), %xmm0
	movups 64(%rsp), %xmm1
	movups 80(%rsp), %xmm2
	movups 96(%rsp), %xmm3
	movups 112(%rsp), %xmm4
	movups 128(%rsp), %xmm5
	movups 144(%rsp), %xmm6
	movups 160(%rsp), %xmm7
	.endm

	.macro forward_and_return
	call *%r11
	movq %rax, -8(%rbp)
	movl -16(%rbp), %edi
	movl %eax, %esi
	call forward_over
	movq -8(%rbp), %rax
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.endm

	.type forward_common, @function
	.p2align 4
forward_common:
	.cfi_startproc
	prepare
	leave
	.cfi_def_cfa %rsp, 8
	jmp *%r11
	.cfi_endproc
	.size forward_common, . - forward_common

	.type forward_inspecting, @function
	.p2align 4
forward_inspecting:
	.cfi_startproc
	prepare
	pushq 40(%rbp)	/* what may be parameters */
	pushq 32(%rbp)
	pushq 24(%rbp)
	pushq 16(%rbp)
	forward_and_return
	.cfi_endproc
	.size forward_inspecting, . - forward_inspecting

	.type forward_submit, @function
	.p2align 4
forward_submit:
	.cfi_startproc
	prepare
	forward_and_return
	.cfi_endproc
	.size forward_submit, . - forward_submit

	.hidden forward_over
	.hidden forward_prepare
	.section .note.GNU-stack, "", @progbits
