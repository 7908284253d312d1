/* dlopen.S: dlopen and dlmopen, which are overridden because a library that is opened with RTLD_DEEPBIND, or in a
 * namespace of its own, calls others past this library, and dlvsym, which finds functions. In assembler, because they
 * depend on the caller.
 */
	.set RTLD_DEEPBIND, 8

	.text
	.macro open name
	.globl \name
	.type \name, @function
	.p2align 4
\name:
	.cfi_startproc
	endbr64
	.endm

	.macro saving register, function
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	movq \register, %rdi
	movq 24(%rsp), %rsi	/* the caller */
	call \function
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	.endm

	.macro go_on name
	movq found_\name(%rip), %rax
	testq %rax, %rax
	jz 2f
	jmp *%rax
2:	saving %rdi, find_\name
	movq %rax, found_\name(%rip)
	jmp *%rax
	.cfi_endproc
	.size \name, . - \name
	.local found_\name
	.comm found_\name, 8, 8
	.endm

	open dlopen
	testl $RTLD_DEEPBIND, %esi
	jz 1f
	saving %rdi, opened_apart
1:	go_on dlopen

	open dlmopen		/* namespace, path, flags */
	testq %rdi, %rdi	/* LM_ID_BASE */
	jz 1f
	saving %rsi, opened_apart
1:	go_on dlmopen

	open dlvsym		/* handle, name, version */
	cmpb $'c', 0(%rsi)
	jne 3f
	cmpb $'u', 1(%rsi)
	jne 1f
	leaq 1(%rdi), %rax	/* RTLD_NEXT, -1, and RTLD_DEFAULT, 0, depend on the caller */
	cmpq $1, %rax
	ja gate_dlvsym
	saving %rsi, gate_passes
	jmp 1f
3:	cmpb $'d', 0(%rsi)
	jne 1f
	cmpb $'l', 1(%rsi)
	jne 1f
	saving %rsi, gate_finders
1:	go_on dlvsym

	.hidden find_dlmopen
	.hidden find_dlopen
	.hidden find_dlvsym
	.hidden gate_dlvsym
	.hidden gate_finders
	.hidden gate_passes
	.hidden opened_apart
	.section .note.GNU-stack, "", @progbits
