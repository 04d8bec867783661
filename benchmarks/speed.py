#!/usr/bin/env python3
"""Times training steps of full-size models against PyTorch's, on this machine and in one run.

    speed.py [--bin=build/bin] [--models=resnet50:16] [--folder=models/zoo] [--threads=2] [--rounds=3]
        [--levels=L0,L3] [--json=FILE]
--levels: LEVEL, or LEVEL/f32, which is compiled with --fpmath=f32, or LEVEL/bf16, with --compute=bf16.
--models: NAME:BATCH,... or "all", the networks of docs/measurements/speed.md.
Every round runs each contender once, one after the other, so that a machine that slows down slows
all of them. PyTorch runs if this Python has torch and torchvision (for bert and gpt2: torch and
transformers). Ratios are to the best of PyTorch eager, channels_last and compile; those of
LEVEL/bf16 to the best under bfloat16 autocast. Without PyTorch they are to the first level."""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Runs of the same plan are compared, so kernels are chosen in a fixed order and not by time.
os.environ.setdefault("ACT_TUNE", "off")
MIB = 1 << 20
ALL = ("resnet50:16,vit_b_16:8,convnext_tiny:8,mobilenet_v2:8,efficientnet_b0:8,swin_t:8,bert_base_t128:8,gpt2_t1024:1")
# channels_last means nothing for these models.
SEQUENCES = ("bert_base_t128", "gpt2_t1024")


# What follows a level's name.
FLAGS_OF = {"": [], "f32": ["--fpmath=f32"], "bf16": ["--compute=bf16"]}


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(" ".join(command) + "\n" + (done.stderr or done.stdout)[-2000:])
    return done.stdout


def pytorch(args, model, batch, mode):
    line = output_of([sys.executable, os.path.join(HERE, "pytorch_step.py"), model, str(batch), mode,
                      f"--threads={args.threads}", f"--steps={args.steps}"]).splitlines()[-1]
    result = json.loads(line)
    return result["median_seconds"], result["resident_peak_bytes"], None


def ours(args, model, batch, folder, level):
    """The plan is made by the first round."""
    level, _, math_type = level.partition("/")
    plan, report = (os.path.join(folder, f"{model}.{level}{math_type}.{kind}") for kind in ("plan", "json"))
    if not os.path.exists(plan):
        output_of([os.path.join(args.bin, "actc"), os.path.join(args.folder, model + ".onnx"), "-O", level, "-o", plan,
                   "--init=he", f"--batch={batch}", "--report=none"] + FLAGS_OF[math_type])
    output_of([os.path.join(args.bin, "actrun"), plan, f"--batch={batch}", f"--threads={args.threads}",
               f"--steps={args.steps + 1}", "--lr=1e-4", "--momentum=0.9", "--report-json=" + report])
    with open(report) as file:
        result = json.load(file)
    return statistics.median(result["step_seconds"]["all"][1:]), result["resident_peak_bytes"], result["peak_bytes"]


def is_bfloat16(name):
    return name.endswith(("/bf16", "amp"))


def contenders_of(args, model, batch, folder):
    contenders = {}
    wanted = ("torch", "transformers") if model in SEQUENCES else ("torch", "torchvision")
    if all(importlib.util.find_spec(name) for name in wanted):
        levels, modes = args.levels.split(","), []
        if not all(is_bfloat16(level) for level in levels):
            modes += ["eager", "compile"] if model in SEQUENCES else ["eager", "channels_last", "compile"]
        if any(is_bfloat16(level) for level in levels):
            modes += ["amp", "compile_amp"]
        for mode in modes:
            contenders["PyTorch " + mode] = lambda mode=mode: pytorch(args, model, batch, mode)
    else:
        print(f"speed: {sys.executable} has no {' and '.join(wanted)}: PYTHON=... names one that has", file=sys.stderr)
    for level in args.levels.split(","):
        contenders["actrun " + level] = lambda level=level: ours(args, model, batch, folder, level)
    return contenders


def measure(args, model, batch, folder):
    """Runs the rounds, prints the model's table and returns it."""
    contenders = contenders_of(args, model, batch, folder)
    results = {name: [] for name in contenders}
    for round_number in range(args.rounds):
        for name, run in contenders.items():
            results[name].append(run())
            print(f"{model}, round {round_number + 1}: {name}: {results[name][-1][0]:.3f} s", file=sys.stderr)
    medians = {name: statistics.median(r[0] for r in runs) for name, runs in results.items()}

    def base_of(name):
        peers = [peer for peer in medians if peer.startswith("PyTorch") and is_bfloat16(peer) == is_bfloat16(name)]
        return min(peers or [next(iter(medians))], key=medians.get)

    print(f"{model}, batch {batch}, {args.threads} threads, median of {args.rounds} x {args.steps} steps;"
          f" ratio to {', '.join(sorted({base_of(name) for name in medians}))}")
    print(f"{'':24}{'step s':>10}{'ratio':>10}{'least':>8}{'most':>8}{'resident MiB':>15}{'arena MiB':>12}")
    rows = []
    for name, runs in results.items():
        pairs = [r[0] / b[0] for r, b in zip(runs, results[base_of(name)])]  # within one round
        resident, arena = max(r[1] for r in runs), runs[0][2]
        rows.append({"name": name, "base": base_of(name), "step_seconds": medians[name], "ratio": statistics.median(pairs),
                     "rounds_ratio": pairs, "rounds_seconds": [r[0] for r in runs],
                     "resident_peak_bytes": resident, "peak_bytes": arena})
        print(f"{name:24}{medians[name]:>10.3f}{statistics.median(pairs):>10.2f}{min(pairs):>8.2f}{max(pairs):>8.2f}"
              f"{resident / MIB:>15.0f}{'' if arena is None else f'{arena / MIB:.0f}':>12}", flush=True)
    return {"model": model, "batch": batch, "threads": args.threads, "results": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "build", "bin"))
    parser.add_argument("--models", default="resnet50:16", help="NAME:BATCH,... or all")
    parser.add_argument("--folder", default=os.path.join(HERE, "..", "models", "zoo"), help="of NAME.onnx")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="timed steps of a process; one more comes first")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--levels", default="L0,L3")
    parser.add_argument("--json")
    args = parser.parse_args()

    tables = []
    for entry in (ALL if args.models == "all" else args.models).split(","):
        model, _, batch = entry.partition(":")
        if not batch.isdigit() or int(batch) < 1:
            sys.exit(f"speed: --models: '{entry}' is not NAME:BATCH")
        if not os.path.exists(os.path.join(args.folder, model + ".onnx")):
            missing = os.path.join(args.folder, model + ".onnx")
            sys.exit(f"speed: {missing} is not there; --folder names the folder of the models")
        with tempfile.TemporaryDirectory() as folder:
            tables.append(measure(args, model, int(batch), folder))
    if len(tables) > 1:
        print("\nratio to PyTorch's best, median of the rounds")
        levels = args.levels.split(",")
        print(f"{'':24}" + "".join(f"{level:>10}" for level in levels))
        for table in tables:
            ratios = {row["name"]: row["ratio"] for row in table["results"]}
            print(f"{table['model']:24}" + "".join(f"{ratios['actrun ' + level]:>10.2f}" for level in levels))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(tables, file, indent=1)


if __name__ == "__main__":
    main()
