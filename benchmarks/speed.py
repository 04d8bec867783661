#!/usr/bin/env python3
"""A training step of a full-size model beside PyTorch's on this machine, in one run.

    speed.py [--bin=build/bin] [--model=resnet50] [--batch=16] [--threads=2] [--rounds=3] [--json=FILE]
Every round runs each contender once, one after the other, so that a machine that slows down slows all of them. PyTorch runs if this
Python has torch and torchvision. Ratios are to PyTorch channels_last, or to L0 without PyTorch."""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + (done.stderr or done.stdout)[-2000:])
    return done.stdout


def pytorch(args, mode):
    line = output_of([sys.executable, os.path.join(HERE, "pytorch_step.py"), args.model, str(args.batch), mode,
                      f"--threads={args.threads}", f"--steps={args.steps}"]).splitlines()[-1]
    result = json.loads(line)
    return result["median_seconds"], result["resident_peak_bytes"], None


def ours(args, folder, level):
    """The plan is made by the first round."""
    plan, report = os.path.join(folder, level + ".plan"), os.path.join(folder, level + ".json")
    if not os.path.exists(plan):
        model = os.path.join(HERE, "..", "models", "zoo", args.model + ".onnx")
        output_of([os.path.join(args.bin, "actc"), model, "-O", level, "-o", plan, "--init=he", f"--batch={args.batch}",
                   "--report=none"])
    output_of([os.path.join(args.bin, "actrun"), plan, f"--batch={args.batch}", f"--threads={args.threads}",
               f"--steps={args.steps + 1}", "--lr=1e-4", "--momentum=0.9", "--report-json=" + report])
    with open(report) as file:
        result = json.load(file)
    return statistics.median(result["step_seconds"]["all"][1:]), result["resident_peak_bytes"], result["peak_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "build", "bin"))
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a process; one more comes first")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--levels", default="L0,L3")
    parser.add_argument("--json")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        contenders = {}
        if all(importlib.util.find_spec(name) for name in ("torch", "torchvision")):
            for mode in ("eager", "channels_last", "compile"):
                contenders["PyTorch " + mode] = lambda mode=mode: pytorch(args, mode)
        else:
            print(f"speed: {sys.executable} has no torch and torchvision: PYTHON=... names one that has", file=sys.stderr)
        for level in args.levels.split(","):
            contenders["actrun " + level] = lambda level=level: ours(args, folder, level)
        results = {name: [] for name in contenders}
        for round_number in range(args.rounds):
            for name, run in contenders.items():
                results[name].append(run())
                print(f"round {round_number + 1}: {name}: {results[name][-1][0]:.3f} s", file=sys.stderr)

    base = "PyTorch channels_last" if "PyTorch channels_last" in results else "actrun L0"
    medians = {name: statistics.median(r[0] for r in runs) for name, runs in results.items()}
    print(f"{args.model}, batch {args.batch}, {args.threads} threads, median of {args.rounds} x {args.steps} steps")
    print(f"{'':24}{'step s':>10}{'ratio':>10}{'resident MiB':>15}{'arena MiB':>12}")
    table = []
    for name, runs in results.items():
        resident, arena = max(r[1] for r in runs), runs[0][2]
        table.append({"name": name, "step_seconds": medians[name], "ratio": medians[name] / medians[base],
                      "rounds_seconds": [r[0] for r in runs], "resident_peak_bytes": resident, "peak_bytes": arena})
        print(f"{name:24}{medians[name]:>10.3f}{medians[name] / medians[base]:>10.2f}{resident / MIB:>15.0f}"
              f"{'' if arena is None else f'{arena / MIB:.0f}':>12}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"model": args.model, "batch": args.batch, "threads": args.threads, "results": table}, file, indent=1)


if __name__ == "__main__":
    main()
