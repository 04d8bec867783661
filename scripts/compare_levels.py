#!/usr/bin/env python3
"""Compares levels and presets on one model and its data: the bytes of saved activations, the planned
peak, the bytes that are swapped to the host's memory, and what the codes do to the gradient.

    compare_levels.py models/digits_resnet.onnx --data=image=X.npy,label=Y.npy --batch=32 --train=150
        L2 L3 actnn-L3 gact-L1

--train=K trains K steps at L0 first. Every level is measured at the parameters after these steps.
Without --data or --inputs the batch is random.
In preset blpa, operators of the graph round. Their error is the same at every step, and --variance
does not measure it. For blpa, v is |g_q - g|^2 / |g|^2 of one mini-batch against L0, and all of it
is bias.
Other flags (--loss=, --optimizer=, --init=, --dim=) are passed on to actc. Needs only the tools in
--bin."""

import argparse
import array
import json
import os
import struct
import subprocess
import sys
import tempfile

# Runs of the same plan are compared, so kernels are chosen in a fixed order and not by time.
os.environ.setdefault("ACT_TUNE", "off")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(" ".join(command) + "\n" + done.stderr.strip())


def plus_minus(value, error):
    if value is None:
        return "-"
    return f"{value:.3g}" if error is None else f"{value:.3g} +- {error:.1g}"


def gradients(path):
    with open(path, "rb") as file:
        data = file.read()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, tensor in json.loads(data[8:end]).items():
        if name.startswith("grad."):
            first, last = tensor["data_offsets"]
            tensors[name] = array.array("f", data[end + first : end + last])
    return tensors


def distance(path, exact_path):
    """|g_q - g|^2 / |g|^2 of two dumped steps."""
    coded, exact = gradients(path), gradients(exact_path)
    error = sum((a - b) ** 2 for name, values in exact.items() for a, b in zip(coded[name], values))
    return error / sum(b * b for values in exact.values() for b in values)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("levels", nargs="+")
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("--batch", default="32")
    parser.add_argument("--data")
    parser.add_argument("--inputs")
    parser.add_argument("--train", type=int, default=0)
    parser.add_argument("--lr", default="0.05")
    parser.add_argument("--variance", default="8", help="gradients of each mini-batch")
    parser.add_argument("--variance-batches", default=None)
    args, for_actc = parser.parse_known_args()
    source = [f"--data={args.data}"] if args.data else [f"--inputs={args.inputs}"] if args.inputs else []
    batch = f"--batch={args.batch}"

    with tempfile.TemporaryDirectory() as folder:
        plan, report = os.path.join(folder, "plan"), os.path.join(folder, "report.json")
        start = []

        def compile_at(level):
            run(
                [
                    f"{args.bin}/actc",
                    args.model,
                    "-O",
                    level,
                    "-o",
                    plan,
                    batch,
                    "--report=none",
                    f"--report-json={report}",
                ]
                + for_actc
            )
            with open(report) as file:
                return json.load(file)

        if args.train > 0:
            checkpoint = os.path.join(folder, "start.safetensors")
            compile_at("L0")
            run(
                [f"{args.bin}/actrun", plan, batch, f"--steps={args.train}", f"--lr={args.lr}", f"--save={checkpoint}"]
                + source
                + (["--epochs=100000"] if args.data else [])
            )
            start = [f"--load={checkpoint}"]
        print(
            "| level | saved bytes | times less than L0's floats | peak bytes | host bytes | variance v"
            " | squared bias b |\n|---|---|---|---|---|---|---|"
        )
        exact = compile_at("L0")["saved_bytes_uncompressed"]
        for level in args.levels:
            memory = compile_at(level)
            saved = memory["saved_bytes"]
            size = f"| {level} | {saved:,} | {exact / max(1, saved):.1f} "
            size += f"| {memory['peak_bytes']:,} | {memory['host_bytes']:,} "
            if any(edge["form"].startswith("fixed") for edge in memory["edges"]):
                dumps = [os.path.join(folder, name) for name in ("coded", "exact")]
                for dump in dumps:
                    run([f"{args.bin}/actrun", plan, batch, "--steps=1", f"--dump-step={dump}"] + source + start)
                    compile_at("L0")
                error = plus_minus(distance(*dumps), None)
                print(f"{size}| {error} | {error} |", flush=True)
                continue
            command = [
                f"{args.bin}/actrun",
                plan,
                batch,
                f"--variance={args.variance}",
                "--variance-edges=",
                f"--report-json={report}",
            ]
            if args.variance_batches:
                command.append(f"--variance-batches={args.variance_batches}")
            run(command + source + start)
            with open(report) as file:
                noise = json.load(file)
            print(
                f"{size}| {plus_minus(noise['variance'], noise['variance_error'])}"
                f" | {plus_minus(noise['bias'], noise['bias_error'])} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
