package mixes

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// wrapper is a tool, such as a profiler, that runs the program after it on a line. It is not part
// of the job, because the batch is measured without it.
type wrapper struct {
	command string // the word that must follow the tool's name; "" = none
	valued  string // options whose value is the next word, separated by spaces
	flags   string // options without a value
}

// wrappers has the tools by base name. Their options are from the tools' manuals, as far as
// workload files are likely to have them.
var wrappers = map[string]wrapper{
	"nvprof": {
		valued: "--aggregate-mode --annotate-mpi --concurrent-kernels --context-name --continuous-sampling-interval" +
			" --cpu-profiling --cpu-profiling-explain-ccff --cpu-profiling-frequency --cpu-profiling-max-depth --cpu-profiling-mode" +
			" --cpu-profiling-percentage-threshold --cpu-profiling-scope --cpu-profiling-show-ccff --cpu-profiling-show-library" +
			" --cpu-profiling-thread-mode --cpu-profiling-unwind-stack --cpu-thread-tracing --demangling --device-buffer-size" +
			" --device-cdp-buffer-size --devices --event-collection-mode -e --events -o --export-profile -i --import-profile" +
			" --kernel-latency-timestamps --kernels --log-file -m --metrics -u --normalized-time-unit --openacc-profiling" +
			" --openacc-summary-mode --openmp-profiling --output-profile --pc-sampling-period --process-name --profile-api-trace --profile-from-start" +
			" --profiling-semaphore-pool-size --replay-mode --skip-kernel-replay-save-restore -a --source-level-analysis --stream-name" +
			" --system-profiling -t --timeout --trace --track-memory-allocations --unified-memory-profiling",
		flags: "--analysis-metrics --concurrent-kernels-off --csv --dependency-analysis -f --force-overwrite --print-api-summary" +
			" --print-api-trace --print-dependency-analysis-trace --print-gpu-summary --print-gpu-trace --print-nvlink-topology" +
			" --print-openacc-constructs --print-openacc-summary --print-openacc-trace --print-openmp-summary --print-pci-topology" +
			" -s --print-summary --print-summary-per-gpu --profile-all-processes --profile-child-processes --profile-from-start-off" +
			" -q --quiet",
	},
	"nsys": {
		command: "profile",
		valued: "-b --backtrace -c --capture-range --cuda-memory-usage --cpuctxsw -y --delay -d --duration -e --env-var --export" +
			" -f --force-overwrite --gpu-metrics-device --gpu-metrics-devices -o --output -s --sample -w --show-output --stats" +
			" -x --stop-on-exit -t --trace",
	},
	"ncu": {
		valued: "--cache-control --clock-control --devices -o --export -k --kernel-name --kernel-name-base --launch-count -c" +
			" --launch-skip -s --launch-skip-before-match --log-file --metrics --page --profile-from-start --replay-mode --section" +
			" --set --target-processes",
		flags: "--csv -f --force-overwrite --nvtx -q --quiet",
	},
	"compute-sanitizer": {
		valued: "--check-api-memory-access --error-exitcode --kernel-name -k --kernel-regex --language --launch-count -c" +
			" --launch-skip -s --launch-timeout --leak-check --log-file --padding --print-level --print-limit --racecheck-report" +
			" --report-api-errors --save --target-processes --tool",
		flags: "--demangle --destroy-on-device-error",
	},
	"cuda-memcheck": {
		valued: "--error-exitcode --language --leak-check --log-file --print-level --print-limit --prefix --racecheck-report" +
			" --report-api-errors --save --tool",
		flags: "-b --binary-patching",
	},
	"time": {
		valued: "-f --format -o --output",
		flags:  "-a --append -p --portability -q --quiet -v --verbose",
	},
}

// unwrap splits a line into the tools before the program and the command itself, which has at
// least the program.
func unwrap(words []word) (tools, command []word, err *InputError) {
	command = words
	for {
		w, found := wrappers[path.Base(command[0].text)]
		if !found {
			return words[:len(words)-len(command)], command, nil
		}
		if command, err = w.rest(command); err != nil {
			return nil, nil, err
		}
	}
}

// rest returns the words after the tool, which is the first word, and its options. An unknown
// option is an error, because it may or may not take the next word, so that the program's place
// is unknown. An unknown option whose value follows = is allowed.
func (w wrapper) rest(words []word) ([]word, *InputError) {
	tool := words[0]
	name := path.Base(tool.text)
	fail := func(at word, format string, args ...any) ([]word, *InputError) {
		return nil, &InputError{Column: at.column, Msg: fmt.Sprintf(format, args...),
			Remedy: "remove " + name + " and its options, so that the line begins with the program"}
	}
	words = words[1:]
	if w.command != "" {
		if len(words) == 0 || words[0].text != w.command {
			return fail(tool, "%s without %s", name, w.command)
		}
		words = words[1:]
	}
	valued, flags := strings.Fields(w.valued), strings.Fields(w.flags)
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		option := words[0]
		words = words[1:]
		switch {
		case option.text == "--":
			if len(words) > 0 {
				return words, nil
			}
		case slices.Contains(flags, option.text):
		case strings.HasPrefix(option.text, "--") && strings.Contains(option.text, "="):
		case !slices.Contains(valued, option.text):
			return fail(option, "unknown option %s of %s", option.text, name)
		case len(words) == 0:
			return fail(option, "option %s of %s without its value", option.text, name)
		default:
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return fail(tool, "%s without a program", name)
	}
	return words, nil
}
