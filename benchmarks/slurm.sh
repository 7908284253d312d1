#!/usr/bin/env bash
# Runs a sweep by --slurm and directly on this machine, which becomes a Slurm of one node, and compares both.
#
#   benchmarks/slurm.sh DIR
#
# DIR gets both stores, their tables, and the logs of the tasks. The Slurm ends with the script. If the script was stopped, the
# next call goes on: with what its tasks have published, which they do every 20 s.
#
# Environment:
#   SLURM    bin/slurm: where .ci/slurm has unpacked Debian's packages
#   MIXES    W1..W3
#   SCHEDS   sa,case-alg3
#   REPS     1
#   MEM_CAP  16GiB of each device
#   NODE     local; a simulated node needs no GPU
#   HALF     slurm or direct makes one sweep of both, which may be on two days. A call without HALF then compares them
#
# Needs bin/caserun and, on local, make native, make cuda and caserun data. Exit status: 0 both sweeps have the same arms, and as many
# runs and jobs in each; 1 they have not; 2 usage, or Slurm does not start; else as caserun sweep.
set -eu
cd "$(dirname "$0")/.."
[ $# = 1 ] || { echo "usage: benchmarks/slurm.sh DIR" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1") root=$(realpath "${SLURM:-bin/slurm}") node=${NODE:-local} half=${HALF:-both}
case $half in both | slurm | direct) ;; *) echo "slurm.sh: HALF has $half: want slurm or direct" >&2; exit 2 ;; esac
gpus=0
[ "$node" != local ] || gpus=$(nvidia-smi -L | wc -l)

# cluster starts a Slurm of this machine.
cluster() {
	plugins=$(echo "$root"/usr/lib/*/slurm-wlm)
	[ -d "$plugins" ] || { echo "slurm.sh: $root has no Slurm: run .ci/slurm $root" >&2; exit 2; }
	d=$(mktemp -d /tmp/caserun-slurm.XXXXXX)
	daemons=()
	# daemon starts a program that a signal to this script and its group does not reach.
	daemon() {
		setsid "$@" &
		daemons+=($!)
		disown
	}
	# ended lets tasks that still run publish what they have, and then ends Slurm.
	ended() {
		set +e
		scancel --user "$(id -un)" 2>/dev/null && for ((i = 0; i < 60; i++)); do
			[ -n "$(squeue -h 2>/dev/null)" ] || break
			sleep 0.5
		done
		kill -9 "${daemons[@]}"
		cp -r "$d/log" "$out/"
		rm -rf "$d"
	}
	trap ended EXIT
	chmod 755 "$d"
	mkdir "$d"/{bin,log,munge,state,spool}
	for name in slurmctld slurmd slurmstepd; do # daemons compare their own names
		ln -s "$root/usr/sbin/$name-wlm" "$d/bin/$name"
	done
	head -c 1024 /dev/urandom >"$d/munge/key"
	chmod 600 "$d/munge/key"
	export SLURM_CONF=$d/slurm.conf PATH=$d/bin:$root/usr/bin:$root/usr/sbin:$PATH
	export LD_LIBRARY_PATH=$(dirname "$plugins"):$plugins${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	cat >"$d/slurm.conf" <<-EOF
	ClusterName=one
	SlurmctldHost=$(hostname)(127.0.0.1)
	SlurmctldPort=16817
	SlurmUser=$(id -un)
	SlurmdUser=$(id -un)
	AuthType=auth/munge
	AuthInfo=socket=$d/munge/socket,cred_expire=10
	CredType=cred/munge
	PluginDir=$plugins
	StateSaveLocation=$d/state
	SlurmdSpoolDir=$d/spool
	SlurmctldPidFile=$d/slurmctld.pid
	SlurmdPidFile=$d/slurmd.pid
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	MpiDefault=none
	SwitchType=switch/none
	JobAcctGatherType=jobacct_gather/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	SlurmdParameters=config_overrides
	SchedulerParameters=sched_interval=1,bf_interval=1
	GresTypes=gpu
	NodeName=n1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=16818 CPUs=$(nproc) Boards=1 SocketsPerBoard=1 CoresPerSocket=$(nproc) ThreadsPerCore=1$([ "$gpus" = 0 ] || echo " Gres=gpu:$gpus")
	PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
	EOF
	for ((i = 0; i < gpus; i++)); do echo "NodeName=n1 Name=gpu File=/dev/nvidia$i"; done >"$d/gres.conf"
	# That of cgroup/v2 needs libdbus. This one does nothing under linuxproc.
	echo CgroupPlugin=cgroup/v1 >"$d/cgroup.conf"

	daemon munged -F --socket="$d/munge/socket" --key-file="$d/munge/key" --seed-file="$d/munge/seed" --pid-file="$d/munge/pid" --log-file="$d/log/munged" >/dev/null 2>&1
	until [ -S "$d/munge/socket" ]; do sleep 0.1; done
	daemon slurmctld -D >"$d/log/slurmctld" 2>&1
	daemon slurmd -D -N n1 -d "$d/bin/slurmstepd" >"$d/log/slurmd" 2>&1
	for ((i = 0; ; i++)); do
		[ "$(sinfo -h -o %T 2>/dev/null)" != idle ] || break
		[ "$i" -lt 60 ] || { tail -n 5 "$d"/log/* >&2; echo "slurm.sh: the node is not idle after 30 s" >&2; exit 2; }
		sleep 0.5
	done
}

sweep=(bin/caserun sweep --mixes "${MIXES:-W1..W3}" --scheds "${SCHEDS:-sa,case-alg3}" --reps "${REPS:-1}" --warmups 0 --node "$node" --mem-cap "${MEM_CAP:-16GiB}" --tag slurm)
asked=(--slurm --sbatch-arg=--exclusive --max-nodes 1 --publish 20s --collect --poll 2s)
[ "$gpus" = 0 ] || asked+=(--gres "gpu:$gpus")
# goon NAME [FLAG...] begins a sweep or goes on with it.
goon() {
	local name=$1
	shift
	if [ -f "$out/$name.db" ]; then
		bin/caserun sweep --resume latest --db "$out/$name.db" "$@" >"$out/$name.txt"
	else
		"${sweep[@]}" --db "$out/$name.db" --runs "$out/runs-$name" "$@" >"$out/$name.txt"
	fi
}
if [ "$half" != direct ]; then
	cluster
	echo "$SECONDS s: Slurm runs, with $gpus GPUs"
	goon slurm "${asked[@]}"
	echo "$SECONDS s: by Slurm"
fi
if [ "$half" != slurm ]; then
	goon direct
	echo "$SECONDS s: directly"
fi
[ "$half" = both ] || exit 0
# form is what must be equal: mode, mix, scheduler, complete and planned runs, jobs. Parameters may have commas.
form() {
	bin/caserun sweep show latest --db "$1" --format json |
		python3 -c 'import json, sys
for arm in json.load(sys.stdin)["rows"]: print(*(arm[k] for k in ("mode", "mix", "scheduler", "parameters", "runs", "runs_planned", "jobs")))'
}
diff <(form "$out/direct.db") <(form "$out/slurm.db") && echo "the same arms, runs and jobs"
