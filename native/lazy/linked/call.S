/* call.S: NAME is the function BEHIND. With REACHES the call says that the program itself makes it:
 * it opens libraries, has the means to reach the driver past the CUDA runtime, or exports memory
 * (linked.mk). */
	.text
	.globl NAME
	.type NAME, @function
	.p2align 4
NAME:
	.cfi_startproc
	endbr64
	jmp *BEHIND@GOTPCREL(%rip)
	.cfi_endproc
	.size NAME, . - NAME

#ifdef REACHES
	.weak case_reaches
	.hidden case_reaches
	.set case_reaches, NAME
#endif
	.section .note.GNU-stack, "", @progbits
