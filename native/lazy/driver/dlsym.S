/* dlsym.S: dlsym, which is overridden in assembler because RTLD_NEXT means "after the caller": the
 * real dlsym must find the caller's return address on the stack.
 */
	.text

	.macro keeping_arguments function
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call \function
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	.endm

	.globl dlsym
	.type dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	cmpb $'c', 0(%rsi)
	jne 3f
	cmpb $'u', 1(%rsi)
	jne 1f
	leaq 1(%rdi), %rax	/* RTLD_NEXT, -1, and RTLD_DEFAULT, 0, depend on the caller, */
	cmpq $1, %rax		/* and find what is overridden without help */
	jbe 4f
	jmp gate_dlsym
4:	movq 0(%rsp), %rdx
	keeping_arguments gate_hands
	jmp 1f
3:	cmpb $'n', 0(%rsi)
	jne 1f
	cmpb $'v', 1(%rsi)
	jne 1f
	keeping_arguments gate_knows
	testl %eax, %eax
	jnz gate_dlsym
1:	movq found_dlsym(%rip), %rax
	testq %rax, %rax
	jz 2f
	jmp *%rax
2:	keeping_arguments gate_find_dlsym
	movq %rax, found_dlsym(%rip)
	jmp *%rax
	.cfi_endproc
	.size dlsym, . - dlsym

	.local found_dlsym
	.comm found_dlsym, 8, 8

	.hidden gate_dlsym
	.hidden gate_find_dlsym
	.hidden gate_hands
	.hidden gate_knows
	.section .note.GNU-stack, "", @progbits
