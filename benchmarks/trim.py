#!/usr/bin/env python3
"""Makes bundles small enough to be committed: docs/results/bundles is made with it.

    benchmarks/trim.py BUNDLE.tar.gz...

Each bundle is replaced. Runs, devices, jobs, tasks, swaps, events and predictions stay, with all figures that were computed from what
goes: the samples of utilization, copies, and the drawings and data that `caserun paper` makes again. These stay, because pages use them:

- samples of the series "gpu" of one mix of a bundle in DRAWN, because `caserun paper` draws a figure from them;
- launches of kernels, because kernel slowdown is computed from them (docs/results/sweep.md).

The store keeps the version of its schema. A bundle that is trimmed already stays as it is.
"""

import gzip
import hashlib
import io
import json
import os
import sqlite3
import sys
import tarfile
import tempfile

# The mix of a bundle whose utilization a figure shows: Figure 7 (docs/results/paper) and Figure 9 (docs/results/darknet.md).
DRAWN = {"sweep.tar.gz": "W7", "darknet-eight.tar.gz": "D-train"}

NOTE = """
This bundle is trimmed (benchmarks/trim.py): it has no copies and no figures, and samples of utilization of at most one mix. What was
computed from them is in run, device and job.
"""


def trimmed(store: bytes, drawn: str) -> bytes:
    """The store without what goes. Samples of the mix drawn stay."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "caserun.db")
        with open(path, "wb") as f:
            f.write(store)
        db = sqlite3.connect(path)
        has = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in sorted({"_segment", "_segment_block"} & has):
            db.execute(f"DELETE FROM {table} WHERE series <> 'gpu' OR run_id NOT IN (SELECT id FROM run WHERE mix = ?)", [drawn])
        db.execute("DELETE FROM copy")
        db.commit()
        db.execute("VACUUM")
        db.close()
        with open(path, "rb") as f:
            return f.read()


def trim(path: str) -> None:
    with tarfile.open(path) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive.getmembers()}
    manifest = json.loads(members.pop("manifest.json"))
    readme = members["README.md"].decode()
    if NOTE in readme:
        return
    members = {name: text for name, text in members.items() if not name.startswith("figures/")}
    members["README.md"] = (readme + NOTE).encode()
    members["caserun.db"] = trimmed(members["caserun.db"], DRAWN.get(os.path.basename(path), ""))
    manifest["members"] = [{"name": name, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()} for name, text in members.items()]
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            first = (json.dumps(manifest, indent=2) + "\n").encode()
            for name, text in [("manifest.json", first), *members.items()]:
                header = tarfile.TarInfo(name)
                header.size = len(text)
                archive.addfile(header, io.BytesIO(text))
    with open(path + ".new", "wb") as f:
        f.write(out.getvalue())
    os.replace(path + ".new", path)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: benchmarks/trim.py BUNDLE.tar.gz...")
    for bundle in sys.argv[1:]:
        trim(bundle)
