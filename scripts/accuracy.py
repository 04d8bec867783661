#!/usr/bin/env python3
"""Trains the same networks with exact and with compressed activations, or with optimizer state in float32,
bfloat16 and 8 bits, with several seeds each, and compares where training ends.

    accuracy.py [--bin build/bin] [--out build/accuracy] [--seeds N] [--first-seed K] [EXPERIMENT ...]

A seed determines the initial weights, the order of the samples and the rounding. All levels use the
same seeds. So they differ only in what they store, and differences are taken seed by seed. Needs
only the tools in --bin."""

import argparse
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys

import char_text
import loss_curves
import tensor_files

# Runs of the same plan are compared, so kernels are chosen in a fixed order and not by time.
os.environ.setdefault("ACT_TUNE", "off")

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


class Experiment:
    """model: a file in models/. data, eval_data: the values of those flags of actrun.
    compiling, training: other flags of actc and of actrun."""

    def __init__(self, name, title, model, levels, batch, data, eval_data, compiling, training):
        self.name, self.title, self.levels, self.batch = name, title, levels, batch
        self.model = os.path.join(ROOT, "models", model)
        self.data, self.eval_data = f"--data={data}", f"--eval-data={eval_data}"
        self.compiling, self.training = compiling, training


def digits(_):
    def files(split):
        return ",".join(f"{name}={ROOT}/models/data/digits/{split}_{name}.npy" for name in ("image", "label"))

    return Experiment(
        "digits",
        "ResNet-14 on 8 x 8 digits, 20 epochs of batch 64, SGD",
        "digits_resnet.onnx",
        ["L0", "L3", "L4", "actnn-L3", "L0/bf16", "L3/bf16"],
        64,
        files("train"),
        files("test"),
        ["--optimizer=sgd"],
        ["--epochs=20", "--lr=0.1", "--momentum=0.9", "--weight-decay=5e-4", "--lr-schedule=cosine"],
    )


def char_gpt(folder, rate="1e-3"):
    batch, steps = 32, 400
    text = char_text.Text(os.path.join(ROOT, "models", "data", "licences"))

    def files(split, windows):
        for name, first in (("text", 0), ("next", 1)):
            numbers = itertools.chain.from_iterable(w[first : first + char_text.WINDOW] for w in windows)
            tensor_files.write_npy(f"{folder}/{split}_{name}.npy", (len(windows), char_text.WINDOW), numbers)
        return ",".join(f"{name}={folder}/{split}_{name}.npy" for name in ("text", "next"))

    return Experiment(
        f"char_gpt_{rate}",
        f"GPT of 4 layers on characters, {steps} steps of batch {batch}, Adam at {rate}",
        "char_gpt.onnx",
        ["L0", "L3", "L3/f32", "L4", "gact-L1", "L0/bf16", "L3/bf16"],
        batch,
        files("train", text.training(steps * batch)),
        files("validation", text.validation()),
        ["--optimizer=adam"],
        ["--epochs=1", f"--lr={rate}"],
    )


def of_state(experiment, optimizer, training, forms=("bf16", "8bit")):
    """The same network at L0, with the optimizer's state in float32 and in other forms."""
    experiment.name += f"_{optimizer}_state"
    experiment.title = experiment.title.rsplit(",", 1)[0] + f", {optimizer} {' '.join(training)}"
    experiment.levels = ["L0"] + [f"L0/state-{form}" for form in forms]
    experiment.compiling = [f"--optimizer={optimizer}"]
    experiment.training = training
    return experiment


def digits_state(optimizer, rate):
    training = ["--epochs=20", f"--lr={rate}", "--weight-decay=5e-4", "--lr-schedule=cosine"]
    return lambda folder: of_state(digits(folder), optimizer, training)


def char_gpt_state(folder):
    forms = ("bf16", "8bit", "8bit-all")  # unlike the ResNet, it has embedding tables
    return of_state(char_gpt(folder), "adam", ["--epochs=1", "--lr=1e-3"], forms)


# What follows a level's name.
FLAGS_OF = {
    "": [],
    "f32": ["--fpmath=f32"],
    "bf16": ["--compute=bf16"],
    "state-bf16": ["--optimizer-state=bf16"],
    "state-8bit": ["--optimizer-state=8bit"],
    "state-8bit-all": ["--optimizer-state=8bit-all"],
}

EXPERIMENTS = {
    "digits": digits,
    "char_gpt": char_gpt,
    "char_gpt_slow": lambda folder: char_gpt(folder, "3e-4"),
    "digits_adam_state": digits_state("adam", "1e-3"),
    "digits_sgd_state": digits_state("sgd", "0.1"),
    "digits_lamb_state": digits_state("lamb", "0.01"),
    "char_gpt_adam_state": char_gpt_state,
}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(" ".join(command) + "\n" + done.stderr.strip())


def load(path):
    with open(path) as file:
        return json.load(file)


def draw_weights(stored, seed):
    """The model's tensors with other initial weights. Each weight of rank 2 or more is drawn from a
    normal distribution with the weight's own deviation. Biases and normalizations keep their
    numbers."""
    generator, drawn = random.Random(seed), {}
    for name, (shape, numbers) in stored.items():
        if name.startswith("param.") and len(shape) > 1:
            deviation = math.sqrt(sum(x * x for x in numbers) / len(numbers))
            numbers = type(numbers)("f", (generator.gauss(0, deviation) for _ in numbers))
        if name.startswith(("param.", "buffer.")):
            drawn[name] = (shape, numbers)
    return drawn


def train(experiment, seeds, tools, folder):
    """seeds: a range. FLAGS_OF has what a name after a level adds to actc's flags.
    Returns {level: (actc's report, [actrun's report of each seed])}."""
    at, flags = f"{folder}/{experiment.name}", [f"--batch={experiment.batch}"]
    # The networks are small, and the last bits of a run depend on the number of threads.
    one_thread = ["--threads=1"]
    results = {}
    for level in experiment.levels:
        name, _, math_type = level.partition("/")
        plan, report, start = f"{at}.{name}{math_type}.plan", f"{at}.{name}{math_type}.json", f"{at}.start.safetensors"
        run(
            [
                f"{tools}/actc",
                experiment.model,
                "-O",
                name,
                *FLAGS_OF[math_type],
                "-o",
                plan,
                "--report=none",
                f"--report-json={report}",
            ]
            + flags
            + experiment.compiling
        )
        if not results:  # a step at rate 0 saves the model's weights
            run(
                [f"{tools}/actrun", plan, experiment.data, "--steps=1", "--lr=0", f"--save={start}"]
                + flags
                + one_thread
            )
            stored = tensor_files.read_floats(start)
        results[level] = (load(report), [])
    for seed in seeds:
        tensor_files.write_floats(start, draw_weights(stored, seed))
        for level in experiment.levels:
            plan = f"{at}.{level.replace('/', '')}"
            report = f"{plan}.{seed}.json"
            run(
                [
                    f"{tools}/actrun",
                    f"{plan}.plan",
                    experiment.data,
                    experiment.eval_data,
                    f"--load={start}",
                    f"--seed={seed}",
                    f"--report-json={report}",
                ]
                + flags
                + one_thread
                + experiment.training
            )
            ran = load(report)
            if ran["peak_bytes"] != ran["planned_peak_bytes"]:
                sys.exit(f"{experiment.name}, {level}: the peak that was used is not the planned one")
            results[level][1].append(ran)
            last = ran["evaluations"][-1]
            print(
                f"{experiment.name} {level} seed {seed}: "
                + ", ".join(f"{k} {last[k]:.4f}" for k in ("loss", "accuracy") if last.get(k) is not None),
                file=sys.stderr,
                flush=True,
            )
    return results


def column(runs, key):
    return [r["evaluations"][-1].get(key) for r in runs]


def mean_and_spread(values, digits, scale=1):
    return f"{scale * statistics.mean(values):.{digits}f} +- {scale * statistics.stdev(values):.{digits}f}"


def table(results):
    """Means and deviations over seeds, and the mean difference to the first level with its standard error."""
    exact = next(iter(results.values()))[1]
    with_accuracy = column(exact, "accuracy")[0] is not None
    lines = [
        "| level | saved bytes | peak bytes | loss, mean +- sd | less that of L0, +- standard error |"
        + (" accuracy, mean +- sd | less that of L0 |" if with_accuracy else ""),
        "|---|---|---|---|---|" + ("---|---|" if with_accuracy else ""),
    ]

    def difference(runs, key, digits, scale=1):
        if runs is exact:
            return "-"
        values = [a - b for a, b in zip(column(runs, key), column(exact, key))]
        error = statistics.stdev(values) / math.sqrt(len(values))
        return f"{scale * statistics.mean(values):+.{digits}f} +- {scale * error:.{digits}f}"

    for level, (memory, runs) in results.items():
        cells = [
            level,
            f"{memory['saved_bytes']:,}",
            f"{memory['peak_bytes']:,}",
            mean_and_spread(column(runs, "loss"), 4),
            difference(runs, "loss", 4),
        ]
        if with_accuracy:
            cells += [mean_and_spread(column(runs, "accuracy"), 2, 100) + " %", difference(runs, "accuracy", 2, 100)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="|".join(EXPERIMENTS), help="which (default: all)")
    parser.add_argument("--bin", default=f"{ROOT}/build/bin")
    parser.add_argument("--out", default=f"{ROOT}/build/accuracy")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    args = parser.parse_args()
    if not set(args.experiments) <= set(EXPERIMENTS):
        parser.error(f"experiments are {', '.join(EXPERIMENTS)}")
    if args.seeds < 2:
        parser.error("--seeds: at least 2 are needed for a standard deviation")
    os.makedirs(args.out, exist_ok=True)
    for name in args.experiments or EXPERIMENTS:
        experiment = EXPERIMENTS[name](args.out)
        results = train(experiment, range(args.first_seed, args.first_seed + args.seeds), args.bin, args.out)
        print(f"{experiment.title}, {args.seeds} seeds\n\n{table(results)}\n", flush=True)
        curves = {level: [r["losses"] for r in runs] for level, (_, runs) in results.items()}
        loss_curves.write_svg(f"{args.out}/{name}.svg", f"{experiment.title}: training loss", curves)


if __name__ == "__main__":
    main()
