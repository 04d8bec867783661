#!/usr/bin/env python3
"""Exports every row of the table (an architecture, a layer, a function) with both exporters, compiles it,
trains two steps at L3 and compares a step at L0 with autograd.

    sweep.py --bin build/bin --out results.jsonl [--only REGEX] [--exporter NAME] [--jobs N] [--again REGEX]

Each row runs in a process of its own with a limit of time and memory. Rows that results.jsonl
already has are left out, so a stopped sweep goes on; --again repeats those whose error matches.
scripts/sweep/results.jsonl is what docs/models.md shows.
Needs torch and the libraries of its rows (torchvision, timm, transformers, diffusers, segmentation_models_pytorch,
monai, peft, einops). docs/models.md has the tables."""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

HERE = Path(__file__).resolve().parent
OURS = [str(HERE), str(HERE.parents[1] / "python" / "src")]
sys.path[:0] = OURS

from stages import EXPORTERS, run  # noqa: E402
from rows import Row  # noqa: E402
import rows_diffusers  # noqa: E402
import rows_functions  # noqa: E402
import rows_layers  # noqa: E402
import rows_monai  # noqa: E402
import rows_peft  # noqa: E402
import rows_smp  # noqa: E402
import rows_timm  # noqa: E402
import rows_torchvision  # noqa: E402
import rows_transformers  # noqa: E402

ROWS: List[Row] = [
    *rows_functions.ROWS,
    *rows_layers.ROWS,
    *rows_torchvision.ROWS,
    *rows_timm.ROWS,
    *rows_transformers.ROWS,
    *rows_diffusers.ROWS,
    *rows_smp.ROWS,
    *rows_monai.ROWS,
    *rows_peft.ROWS,
]
# What a line keeps of a result: what the table shows, and how long each stage took.
KEPT = ("row", "exporter", "stage", "error", "batch", "any_batch", "attempts", "conclusive", "seconds", "tools")


def read_results(path: str) -> Dict[Tuple[str, str], Dict[str, Any]]:
    """The last result of each row and exporter, in the order of the lines; none if there is no file."""
    found: Dict[Tuple[str, str], Dict[str, Any]] = {}
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                entry = json.loads(line)
                found.pop((entry["row"], entry["exporter"]), None)  # so that the newest is last
                found[entry["row"], entry["exporter"]] = entry
    return found


def _line(result: Dict[str, Any]) -> str:
    return json.dumps({name: result[name] for name in KEPT if name in result}) + "\n"


def _child(row: Row, exporter: str, tools: str, memory_bytes: int, limit_s: float, keep: str, pipe: Any) -> None:
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    with tempfile.TemporaryDirectory() as folder:
        pipe.send(run(row, exporter, tools, folder, limit_s, keep))


def run_limited(context: Any, row: Row, exporter: str, args: argparse.Namespace) -> Dict[str, Any]:
    """The result of one row. A process that dies or takes too long is a result too."""
    mine, theirs = context.Pipe(False)
    start = time.time()
    process = context.Process(
        target=_child, args=(row, exporter, args.bin, args.memory << 30, args.limit, args.keep, theirs)
    )
    process.start()
    theirs.close()
    lost = {"row": row.key, "model": row.model, "exporter": exporter, "stage": "process", "seconds": {}}
    try:
        result = mine.recv() if mine.poll(args.limit) else {**lost, "error": f"more than {args.limit} seconds"}
    except EOFError:
        process.join()
        result = {**lost, "error": f"the process died: {process.exitcode}"}
    process.kill() if process.is_alive() and "error" in result and result["stage"] == "process" else None
    process.join()
    result["seconds"]["all"] = round(time.time() - start, 1)
    return result


def build_of(tools: str) -> str:
    """A name of the tools, by their bytes: results of several builds may stand in one file."""
    bytes_of = [(Path(tools) / name).read_bytes() for name in ("actc", "actrun")]
    return hashlib.sha256(b"".join(bytes_of)).hexdigest()[:12]


def wanted(args: argparse.Namespace) -> Iterator[Tuple[Row, str]]:
    """The rows that are to run, in order of the table."""
    known = read_results(args.out)
    for exporter in EXPORTERS:
        for row in ROWS:
            if args.exporter not in ("", exporter) or not re.search(args.only, row.key):
                continue
            entry = known.get((row.key, exporter))
            if entry is None or args.again and re.search(args.again, entry.get("error", "")) and "error" in entry:
                yield row, exporter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of actc and actrun")
    parser.add_argument("--out", required=True, help="results, a JSON line each; the last of a row counts")
    parser.add_argument("--only", default="", help="rows whose key (library/family) matches")
    parser.add_argument("--exporter", default="", choices=("", *EXPORTERS))
    parser.add_argument("--again", default="", help="repeat rows that failed with an error that matches")
    parser.add_argument("--keep", default="", help="folder for the ONNX files of models that fail")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one row")
    parser.add_argument("--memory", type=int, default=16, help="GiB of address space for one row")
    args = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["ACT_TUNE"] = "off"  # two steps: timing kernels would take longer
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    # Rows are forked from one process that has imported the libraries, which takes longer than most rows.
    # Up to Python 3.11 it does not take over sys.path, and a module that it cannot import it leaves out silently.
    os.environ["PYTHONPATH"] = os.pathsep.join([*OURS, *filter(None, [os.environ.get("PYTHONPATH")])])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torchvision", "timm", "onnxscript", "warm", "stages", "build_row"])
    todo, tools = list(wanted(args)), build_of(args.bin)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, open(args.out, "a") as out:
        waiting = [pool.submit(run_limited, context, row, exporter, args) for row, exporter in todo]
        for done, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            result = {**future.result(), "tools": tools}
            if "check" in result:
                result["conclusive"] = result["check"]["conclusive"]
            out.write(_line(result))
            out.flush()
            name, seconds = f"{result['row']} {result['exporter']}", result["seconds"]["all"]
            said = f"{result['stage']} {result.get('error', '')[:150]}".replace("\n", " ")
            print(f"{done}/{len(todo)} {name} {seconds} s: {said}", file=sys.stderr)
    whole = args.out + ".new"
    with open(whole, "w") as out:
        out.writelines(map(_line, read_results(args.out).values()))
    os.replace(whole, args.out)  # without lines that a later one replaced


if __name__ == "__main__":
    main()
