#!/bin/bash
# Checks the program on a machine with a GPU.
#
#   check.sh [PART...]    PART: build errors footprint verify repeat sanitize timing
#                         (all, in that order, without arguments)
#
# build, errors and footprint need no GPU. Environment:
#   LOGS         folder for the programs' output (a fresh one in TMPDIR)
#   NVCC, ARCH   passed to make
# Exit status: 0 all passed, 1 a check failed, 2 the program does not build.
set -u
cd "$(dirname "$0")" || exit 1
darknet=$PWD/../../bin/suite/darknet
inputs=$PWD/../../mixes/suites/inputs/cfg
failures=0

# name|images on standard input|arguments: small networks with every kind of layer.
small='predict|gen:29x21:1 gen:40x21:2 gen:3x9:3 gen:29x21:4|classifier predict test/predict.data test/predict.cfg
detect|gen:64x32:1 gen:40x21:2 gen:3x9:3|detect test/detect.cfg none.weights -thresh 0.03
region|gen:64x32:1 gen:40x21:2 gen:3x9:3|detect test/region.cfg none.weights -thresh 0.02
generate||rnn generate test/rnn.cfg none.weights -len 20 -seed ab
train||classifier train test/train.data test/train.cfg
cost||classifier train test/train.data test/cost.cfg'

# One pass of each published network, with its footprint in bytes.
networks='darknet53|gen:448x448:1|701118368|classifier predict imagenet1k.data darknet53_448.cfg
yolov3-tiny|gen:416x416:1|128773456|detect yolov3-tiny.cfg none.weights
rnn||69406720|rnn generate rnn.cfg none.weights -len 20
alexnet|gen:227x227:1|293848268|classifier predict imagenet1k.data alexnet.cfg
darknet19|gen:256x256:1|164562528|classifier predict imagenet1k.data darknet19.cfg
resnet152|gen:256x256:1|454178272|classifier predict imagenet1k.data resnet152.cfg
yolov2-320|gen:320x320:1|314526276|detect yolov2-320.cfg none.weights
yolov2-608|gen:608x608:1|515594412|detect yolov2-608.cfg none.weights
yolov3-320|gen:320x320:1|447125460|detect yolov3-320.cfg none.weights
yolov3-608|gen:608x608:1|879247500|detect yolov3-608.cfg none.weights
yolov3-spp|gen:608x608:1|890843276|detect yolov3-spp.cfg none.weights
cifar_small||156347600|classifier train cifar.data cifar_small.cfg'

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

# run IMAGES COMMAND...: standard input has the images' names, one on each line.
run() {
	local images=$1
	shift
	for image in $images; do echo "$image"; done | "$@" >"$logs/output" 2>"$logs/errors"
	local status=$?
	cat "$logs/output" "$logs/errors" >>"$logs/log"
	return $status
}

checksum() {
	grep -o 'checksum 0x.*' "$logs/output"
}

build() {
	make -j"$(nproc)" || exit 2
}

# refused MESSAGE ARGUMENTS...: expects exit status 1 and the message on stderr.
refused() {
	local message=$1
	shift
	run "" "$darknet" "$@"
	local status=$?
	if [ $status -eq 1 ] && grep -qF -- "$message" "$logs/errors"; then
		echo "ok   refused: $message"
	else
		fail "status $status instead of 1 with \"$message\": $(tail -n 1 "$logs/errors")"
	fi
}

errors() {
	local bad=$logs/bad
	local net='[net]\nwidth=8\nheight=8\nchannels=3\n'
	local conv='[convolutional]\nfilters=10\nactivation=linear\n[avgpool]\n'
	mkdir -p "$bad"
	printf "$net[gru]\noutput=3\n" >"$bad/section.cfg"
	printf "$net[convolutional]\nfilter=3\n" >"$bad/key.cfg"
	printf "$net[convolutional]\nsize=three\n" >"$bad/value.cfg"
	printf "$net$conv" >"$bad/good.cfg"
	printf 'classes=10\ntrain_list=x\n' >"$bad/key.data"
	printf 'classes=9\n' >"$bad/classes.data"
	printf '\0\0\0\0\002\0\0\0\0\0\0\0short' >"$bad/short.weights"
	refused "$bad/section.cfg:5: unknown section [gru]" classifier predict test/predict.data "$bad/section.cfg"
	refused "$bad/key.cfg:6: unknown key \"filter\"" classifier predict test/predict.data "$bad/key.cfg"
	refused "$bad/value.cfg:6: [convolutional] size" classifier predict test/predict.data "$bad/value.cfg"
	refused "$bad/none.cfg: no such file" classifier predict test/predict.data "$bad/none.cfg"
	refused "$bad/key.data:2: unknown key \"train_list\"" classifier predict "$bad/key.data" "$bad/good.cfg"
	refused "$bad/classes.data:1: [data] classes: 9 classes" classifier predict "$bad/classes.data" "$bad/good.cfg"
	refused "short.weights has 17 bytes, want 180" classifier predict test/predict.data "$bad/good.cfg" "$bad/short.weights"
	refused "image $bad/none.png: No such file" classifier predict test/predict.data "$bad/good.cfg" none.weights "$bad/none.png"
	refused "want gen:WIDTHxHEIGHT:SEED" detect test/detect.cfg none.weights gen:0x5:1
	refused "cannot be trained here" classifier train test/train.data test/rnn.cfg
	refused "has no [yolo] or [region] layer" detect test/predict.cfg none.weights
	refused "usage: darknet" classifier predict
}

footprint() {
	local name bytes command got
	while IFS='|' read -r name _ bytes command; do
		got=$(cd "$inputs" && "$darknet" $command --footprint) || { fail "footprint $name"; continue; }
		case $got in
		"bytes=$bytes "*" block=512x1x1"*) echo "ok   footprint $name: ${got%%$'\n'*}" ;;
		*) fail "footprint $name: ${got%%$'\n'*}, want $bytes bytes" ;;
		esac
	done <<<"$networks"
}

# verified NAME: checks that run's output agrees with the host reference.
verified() {
	echo "ok   verify $1: $(sed -n 's/^verify .* max_error \([^ ]*\) .*/\1/p' "$logs/output" | sort -g | tail -n 1) at most"
}

verify() {
	local name images command
	while IFS='|' read -r name images command; do
		if run "$images" "$darknet" $command --verify; then
			verified "$name"
		else
			fail "verify $name: $(tail -n 1 "$logs/errors")"
		fi
	done <<<"$small"
	sed 's/^max_batches=.*/max_batches=2/; s/^policy=.*/policy=constant/' "$inputs"/cifar_small.cfg >"$logs/cifar_small.cfg"
	# All at once: the host's part takes up to half a minute.
	local jobs=()
	while IFS='|' read -r name images _ command; do
		command=${command/cifar_small.cfg/$logs/cifar_small.cfg}
		(
			logs=$logs/$name
			mkdir -p "$logs"
			cd "$inputs" && run "$images" "$darknet" $command --verify
		) &
		jobs+=("$!")
	done <<<"$networks"
	while IFS='|' read -r name _; do
		if wait "${jobs[0]}"; then
			logs=$logs/$name verified "$name"
		else
			fail "verify $name: $(tail -n 1 "$logs/$name/errors")"
		fi
		jobs=("${jobs[@]:1}")
	done <<<"$networks"
}

# The same arguments give the same checksum, alone and beside seven others.
repeat() {
	local name images command first i
	while IFS='|' read -r name images _ command; do
		(cd "$inputs" && run "$images" "$darknet" $command) || { fail "repeat $name"; continue; }
		first=$(checksum)
		for i in 1 2 3 4 5 6 7 8; do
			(cd "$inputs" && for image in $images; do echo "$image"; done | "$darknet" $command >"$logs/beside$i" 2>&1) &
		done
		wait
		if [ "$(grep -ho 'checksum 0x.*' "$logs"/beside? | sort | uniq -c | sed 's/^ *//')" = "8 $first" ]; then
			echo "ok   repeat $name: $first"
		else
			fail "repeat $name: $first alone, beside others: $(grep -ho 'checksum 0x.*' "$logs"/beside? | sort | uniq -c | tr '\n' ';')"
		fi
	done <<<"$networks"
}

sanitize() {
	local name images command tool
	if ! command -v compute-sanitizer >/dev/null; then
		echo "skip sanitize: compute-sanitizer is not installed"
		return
	fi
	while IFS='|' read -r name images command; do
		for tool in memcheck racecheck initcheck synccheck; do
			if run "$images" compute-sanitizer --tool "$tool" --error-exitcode 9 "$darknet" $command; then
				echo "ok   $tool $name"
			else
				fail "$tool $name: $(grep -m 1 '=====.*rror' "$logs/output")"
			fi
		done
	done <<<"$small"
}

# The wall time of the published networks, by phases.
timing() {
	local name images command start
	while IFS='|' read -r name images _ command; do
		case $name in
		rnn) command=${command/-len 20/-len 20000} ;;
		cifar_small) ;;
		*) images=$(seq -f "${images%:*}:%.0f" 1 500) ;;
		esac
		start=$(date +%s.%N)
		(cd "$inputs" && run "$images" "$darknet" $command --phases) || fail "$name: $(tail -n 1 "$logs/errors")"
		awk -v name="$name" -v a="$start" -v b="$(date +%s.%N)" '
			BEGIN { printf "%-12s %6.2f s", name, b - a }
			$1 == "phase" { $1 = ""; printf " |%s", $0 }
			END { print "" }' "$logs/errors"
	done <<<"$networks"
}

if [ -n "${LOGS:-}" ]; then
	logs=$(realpath "$LOGS")
	mkdir -p "$logs" || exit 1
else
	logs=$(mktemp -d) || exit 1
	trap 'rm -rf "$logs"' EXIT
fi

[ $# -gt 0 ] || set -- build errors footprint verify repeat sanitize timing
for part in "$@"; do
	case $part in
	build | errors | footprint | verify | repeat | sanitize | timing) $part ;;
	*) echo "check.sh: unknown part $part" >&2; exit 1 ;;
	esac
done
if [ $failures -gt 0 ]; then
	echo "$failures checks failed"
	exit 1
fi
echo "all checks passed"
