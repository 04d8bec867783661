#!/usr/bin/env python3
"""For some limits, compares the step that actc --memory-limit chooses with the levels and presets that fit.

    compare_memory_limits.py tests/golden/CASE/model.onnx ... --batch=32 --parts=.05,.2,.4,.7

A limit is given as a part of the way from the least peak of all levels to that of L0. For each, the table has the
chosen step, its variance of the gradient at the initial weights (actrun --variance, random data), the least variance
of the levels and presets whose peak is within the limit, its time by that of the fastest of these, and actc's time. A
step's time is the least of --steps steps in each of three processes, which run by turns. Preset blpa is left out: its
error is all bias, which --variance does not measure. Needs only the tools in --bin."""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

LEVELS = ["L0", "L1", "L2", "L3", "L4", "L5"]
PRESETS = [f"actnn-L{i}" for i in range(1, 6)] + [f"gact-L{i}" for i in range(1, 4)] + ["division", "acgc"]
# Levels with the fewest bits, which bound the least peak from above.
FEWEST = [("L3", "1.625"), ("L4", "1.625")]

os.environ.setdefault("ACT_TUNE", "off")  # runs of different plans are compared


def in_short(step):
    """"L3 with --bits=8 --exact=0.25" as "L3, 8, .25"."""
    return re.sub(r" --exact=0?(\S+)", r", \1", re.sub(r" with --bits=(\S+)", r", \1", step))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--batch", default="32")
    parser.add_argument("--parts", default=".05,.2,.4,.7")
    parser.add_argument("--variance", default="8", help="gradients of the mini-batch")
    parser.add_argument("--steps", default="20", help="steps of a process that are timed")
    parser.add_argument("--threads", default="1", help="of actrun")
    args, for_actc = parser.parse_known_args()
    batch = f"--batch={args.batch}"

    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")

        def compiled(model, flags, plan):
            """The peak, both arenas together as on a processor; None if the model has no such step."""
            command = [f"{args.bin}/actc", model, "-o", plan, batch, f"--report-json={report}"]
            done = subprocess.run(command + flags + for_actc, capture_output=True, text=True)
            if done.returncode != 0:
                print(" ".join(flags), done.stderr.strip(), file=sys.stderr)
                return None, ""
            with open(report) as file:
                memory = json.load(file)
            return memory["peak_bytes"] + memory["host_bytes"], done.stdout

        def ran(plan, flags):
            """The report of a run."""
            command = [f"{args.bin}/actrun", plan, batch, f"--threads={args.threads}"]
            command += [f"--report-json={report}"] + flags
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(" ".join(command) + "\n" + done.stderr.strip())
            with open(report) as file:
                return json.load(file)

        def variance(plan):
            return ran(plan, [f"--variance={args.variance}", "--variance-edges="])["variance"]

        def step_seconds(plans):
            """The least time of a step of each plan. The rate is small, so that no run ends early."""
            least = [math.inf] * len(plans)
            for _ in range(3):
                for i, plan in enumerate(plans):
                    seconds = ran(plan, [f"--steps={args.steps}", "--lr=1e-6"])["step_seconds"]["min"]
                    least[i] = min(least[i], seconds)
            return least

        def at(name):
            return os.path.join(folder, name)

        print("| network | limit | level, bits, exact part | its peak | v | best that fits | v | ratio | fastest that fits | time | actc |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for model in args.models:
            others = []
            for level in LEVELS + PRESETS:
                peak, _ = compiled(model, ["-O", level], at(level))
                if peak is not None:
                    others.append((variance(at(level)), peak, level))
            peaks = [peak for _, peak, _ in others]
            fewest = [compiled(model, ["-O", o, f"--bits={b}"], at("fewest"))[0] for o, b in FEWEST]
            peaks += [peak for peak in fewest if peak is not None]
            least, exact = min(peaks), next(peak for _, peak, level in others if level == "L0")
            name = os.path.basename(os.path.dirname(model))
            for part in args.parts.split(","):
                limit = int(least + float(part) * (exact - least))
                start = time.monotonic()
                peak, text = compiled(model, [f"--memory-limit={limit}"], at("chosen"))
                seconds = time.monotonic() - start
                if peak is None:
                    print(f"| {name} | {limit:,} | none | | | | | | | | {seconds:.1f} s |", flush=True)
                    continue
                line = next(line for line in text.splitlines() if line.startswith("memory limit: "))
                chosen, v = in_short(line[len("memory limit: ") :].split(" takes ")[0]), variance(at("chosen"))
                fitting = [(noise, level) for noise, level_peak, level in others if level_peak <= limit]
                best, level = min(fitting) if fitting else (0, "none")
                ratio = f"{v / best:.2f}" if best > 0 else ""
                best = f"{best:.3g}" if fitting else ""
                own, *times = step_seconds([at("chosen")] + [at(level) for _, level in fitting])
                fastest, slower = "none", ""
                if fitting:
                    i = times.index(min(times))
                    fastest, slower = fitting[i][1], f"{own / times[i]:.2f}"
                print(
                    f"| {name} | {limit:,} | {chosen} | {peak:,} | {v:.3g} | {level} | {best} | {ratio}"
                    f" | {fastest} | {slower} | {seconds:.1f} s |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
