# generate.awk: generates from cuda.calls what `want` names.
#
#   runtime_api  declarations of the CUDA runtime's functions, for the lazy runtime
#   forward      FORWARD(name, needs), SUBMIT and INSPECT: what is passed on in registers
#   driver_api   declarations of the driver's functions that are overridden
#   driver       the driver's functions that are overridden, by kind: KIND(symbol, name, own, needs..., parameters, arguments).
#                name and own are what cuGetProcAddress is asked for: own is 1 in the variant for the per-thread default
#                stream, 0 in the other, -1 where there is one only
#   harmless     HARMLESS(name): the driver's functions that give no work
#   programs     declarations of the CUDA runtime's functions, for programs
#   classes      each name with its kind, for tests
#
# It exits with 1 at a call that it does not understand, whatever is wanted.

BEGIN {
	if (want == "runtime_api" || want == "driver_api") print "#include \"abi/symbols.h\"\n"
	FS = "[ \t]*[|][ \t]*"
	split("none own forward submit inspect", k, " "); for (i in k) runtime[k[i]] = 1
	split("gate context linear allocation release charge launch load work wait answer harmless", k, " "); for (i in k) driver[k[i]] = 1
	split("linear allocation release charge load wait answer gate harmless", k, " "); for (i in k) no_work[k[i]] = 1
	split("ANYTIME KEEPS CONTEXT IN_ORDER REGISTERS", k, " "); for (i in k) needs_known[k[i]] = 1
}

function refuse(why) {
	printf "%s:%d: %s: %s\n", FILENAME, FNR, name, why | "cat >&2"
	failed = 1
}

# arguments are the names of parameters.
function arguments(parameters,    i, c, depth, part, list) {
	parameters = substr(parameters, 2, length(parameters) - 2)
	if (parameters == "void")
		return "()"
	for (i = 1; i <= length(parameters) + 1; i++) {
		c = substr(parameters, i, 1)
		depth += (c == "(") - (c == ")")
		if ((c == "," && depth == 0) || i > length(parameters)) {
			if (match(part, /\([*][A-Za-z_]+\)/)) # a function
				part = substr(part, RSTART + 2, RLENGTH - 3)
			else
				sub(/^.*[^A-Za-z0-9_]/, "", part)
			list = list (list == "" ? "" : ", ") part
			part = ""
		} else
			part = part c
	}
	return "(" list ")"
}

function check_needs(    i, n, list) {
	if (kind != "forward" && kind != "submit" && kind != "inspect") {
		if (needs != "" && name !~ /^cu[A-Z]/)
			refuse("kind " kind " needs nothing")
		return
	}
	n = split(needs, list, "+")
	for (i = 1; i <= n; i++)
		if (!(list[i] in needs_known) && list[i] !~ /^(DEVICE|LOCATION|DEVICE_OR_LOCATION|STREAM_AT)\([0-5]\)$/)
			refuse("what is " list[i] "?")
}

function prototype(linkage, symbol) { print linkage (result != "" ? result : of_driver ? "CUresult" : "cudaError_t") " " symbol parameters ";" }

# override is a line of the driver's list.
function override(symbol, own,    named, extra) {
	named = name
	sub(/_v[0-9]+$/, "", named)
	extra = needs
	if (kind == "linear" || kind == "allocation" || kind == "launch" || kind == "load" || kind == "wait") {
		if (extra == "")
			extra = kind == "launch" ? "stream" : kind == "wait" ? "neither" : kind == "load" ? "nullptr, 0" : "0"
		extra = extra ", "
	}
	print toupper(kind == "context" ? "gate" : kind) "(" symbol ", " named ", " own ", " extra parameters ", " arguments(parameters) ")"
}

# each calls for the name and its variant.
function each(    v) {
	if (want == "runtime_api" && kind == "own") {
		prototype("CASE_API ", name)
		if (variant != "") prototype("CASE_API ", name "_" variant)
	} else if (want == "runtime_api" && kind != "none" && !of_driver && parameters != "") {
		prototype("extern \"C\" ", name)
		if (variant != "") prototype("extern \"C\" ", name "_" variant)
	} else if (want == "forward" && kind ~ /^(forward|submit|inspect)$/) {
		v = needs
		gsub(/\+/, " | ", v)
		print toupper(kind) "(" name ", " (v == "" ? "0" : v) ")"
		if (variant != "") print toupper(kind) "(" name "_" variant ", " (v == "" ? "0" : v) ")"
	} else if (want == "driver_api" && of_driver && kind != "harmless") {
		prototype("CASE_API ", name)
		if (variant != "") prototype("CASE_API ", name "_" variant)
	} else if (want == "driver" && of_driver && kind != "harmless") {
		override(name, variant == "" ? -1 : 0)
		if (variant != "") override(name "_" variant, 1)
	} else if (want == "harmless" && of_driver && kind in no_work) {
		v = name
		sub(/_v[0-9]+$/, "", v)
		if (!(v in harmless)) print "HARMLESS(" v ")"
		harmless[v] = 1
	} else if (want == "programs" && !of_driver && name !~ /^_/) {
		if (NF > 4)
			for (v = 5; v <= NF; v++) {
				print "#if FAKE_NVCC == " substr($v, 1, 2)
				print "cudaError_t " name substr($v, 4) ";"
				print "#endif"
			}
		else if (parameters != "")
			prototype("", name)
	} else if (want == "classes") {
		print name, kind
		if (variant != "") print name "_" variant, kind
	}
}

/^#/ || /^$/ { next }

{
	name = $1; kind = $2; needs = $3; parameters = $4
	variant = result = ""
	sub(/[ \t]+$/, "", name)
	if (split(name, k, "+") == 2) { name = k[1]; variant = k[2] }
	if ((at = index(parameters, "(")) > 1) { result = substr(parameters, 1, at - 1); parameters = substr(parameters, at) }
	of_driver = name ~ /^cu[A-Z]/
	if (!of_driver && name !~ /^(__)?cuda[A-Z]/)
		refuse("is not a function of CUDA")
	if (name in seen)
		refuse("is there twice")
	seen[name] = 1
	if (!(of_driver ? kind in driver : kind in runtime))
		refuse(kind == "" ? "nobody has said of what kind it is" : "kind " kind " is not one")
	if (variant != "" && variant != "ptds" && variant != "ptsz")
		refuse("variant " variant " is not one")
	if (parameters == "" && (of_driver ? kind != "harmless" : kind == "own"))
		refuse("is overridden, and has no parameters")
	check_needs()
	if (!failed)
		each()
}

END { exit failed }
