# Says what the kernels k1, k2, ... of PTX compute with: a line with a number and a floating point
# instruction for each. Additions and multiplications that ptxas may contract, and contracted ones, are
# the same: free. So are two ways to one value: 0 - x and fma(x, -1, 0), and the conversion of an
# unsigned and of a signed number that has no sign.
/\.entry k[0-9]+\(/ {
	match($0, /k[0-9]+/)
	kernel = substr($0, RSTART + 1, RLENGTH - 1)
}
/^\.(visible )?\.?func/ { kernel = "" }
kernel != "" {
	op = ($1 ~ /^@/) ? $2 : $1
	if (op !~ /\.f(32|64)(\.|$)/ || op ~ /^(ld|st|mov|selp|setp|abs|neg|testp|atom)\./)
		next
	if (op ~ /^fma\.rn/ || (op ~ /^(add|sub|mul)\./ && op !~ /\.r[nzmp]\./))
		op = "free" (op ~ /\.ftz\./ ? ".ftz" : "") substr(op, length(op) - 3)
	sub(/^sub\.rn/, "add.rn", op)
	sub(/^cvt\.rn\.f32\.u32/, "cvt.rn.f32.s32", op)
	print kernel, op
}
