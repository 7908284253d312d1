"""alone.py DIR SECONDS DEVICE: runs each job of kinds.yaml alone under case-alg3, without a cap, and notes the most memory that the device
shows meanwhile in DIR/alone.csv. Jobs that are there already are left out."""

import csv
import os
import re
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import ROOT, Store, elapsed, last_line, load_rows  # noqa: E402

KINDS = os.path.join(ROOT, "benchmarks", "frameworks", "kinds.yaml")


def used(device):
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", device],
                         capture_output=True, text=True, check=True).stdout
    return int(out)


class Most(threading.Thread):
    """The most memory that a device shows beyond what it shows now, in MiB, until stop."""

    def __init__(self, device):
        super().__init__()
        self.device, self.before, self.most, self.ended = device, used(device), 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.1):
            self.most = max(self.most, used(self.device) - self.before)

    def stop(self):
        self.ended.set()
        self.join()
        return self.most


def main(directory, limit_s, device):
    store = Store(os.path.join(directory, "alone"))
    path = os.path.join(directory, "alone.csv")
    rows = load_rows(path)
    with open(KINDS) as f:
        lines = [line for line in f if line.startswith("  - ")]
    for line in lines:
        name = re.search(r"name: ([\w-]+)", line).group(1)
        if any(row["job"] == name for row in rows):
            continue
        if elapsed() > limit_s - 60:
            return 4
        mix = os.path.join(store.dir, name + ".yaml")
        with open(mix, "w") as f:
            f.write(f"name: {name}\njobs:\n{line}")
        most = Most(device)
        most.start()
        try:
            run = store.run(mix, "case-alg3", ["--devices", device, "--require-live", "--no-footprints", "--timeout", "120s"])
        finally:
            shown = most.stop()
        job = run.jobs[0]
        charged = max((int(t["bytes"]) + int(t["grown_bytes"] or 0) for t in run.tasks if t["bytes"]), default=0)
        rows.append({"job": name, "outcome": job["outcome"], "charged_mib": charged >> 20, "shown_mib": shown,
                     "unaccounted_mib": int(job.get("unaccounted_bytes") or 0) >> 20,
                     "says": last_line(run.output(job)) or last_line(run.output(job, "err"))})
        with open(path, "w", newline="") as f:
            out = csv.DictWriter(f, rows[0])
            out.writeheader()
            out.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3]))
