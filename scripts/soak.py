#!/usr/bin/env python3
"""A long run. Its resident memory stays what it is after the first steps, and its losses are those of a run that was
stopped and resumed ten times, bit for bit.

    soak.py --bin build/bin [--steps N] [--stops N] [--seed S]

Needs only Python's standard library."""
import argparse
import array
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SETTLED = 1000  # steps after which memory must stay
MOST_GROWTH_KIB = 1024
SAVE_EVERY = 500
BATCH, SAMPLES, EVAL_SAMPLES = 4, 214, 59  # so the last batch of an epoch is a partial one
PIXELS, CLASSES = 16, 10


def write_npy(path, descr, shape, numbers):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        numbers.tofile(file)


def write_data(work, name, samples, draw):
    """Noise, with a line across the image whose row is the class."""
    labels, images = array.array("q"), array.array("f")
    for sample in range(samples):
        labels.append(sample % CLASSES)
        for row in range(PIXELS):
            images.extend(draw.gauss(2 if row == labels[-1] + 3 else 0, 0.5) for _ in range(PIXELS))
    write_npy(f"{work}/{name}_image.npy", "<f4", (samples, 1, PIXELS, PIXELS), images)
    write_npy(f"{work}/{name}_label.npy", "<i8", (samples,), labels)


def data(flag, work, name):
    return f"--{flag}=image={work}/{name}_image.npy,label={work}/{name}_label.npy"


def command(arguments, work, name, flags):
    return [f"{arguments.bin}/actrun", f"{work}/plan", "--threads=1", data("data", work, "train"),
            data("eval-data", work, "test"),
            "--lr=0.001", "--momentum=0.9", "--lr-schedule=cosine", f"--steps={arguments.steps}", "--adapt-every=400",
            f"--save-every={SAVE_EVERY}", "--save-best=loss", "--resume", f"--save={work}/{name}.safetensors",
            f"--report-json={work}/{name}.json"] + flags


def steps_done(work, name):
    """As far as states on the way tell."""
    steps = [int(m[1]) for m in (re.match(rf"{name}\.step-(\d+)\.safetensors$", f) for f in os.listdir(work)) if m]
    return max(steps, default=0)


def resident_kib(process):
    try:
        with open(f"/proc/{process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
    except (FileNotFoundError, ProcessLookupError, TypeError):
        return None  # it has ended


def start(arguments, work, name, log):
    return subprocess.Popen(command(arguments, work, name, []), stdout=subprocess.DEVNULL, stderr=log,
                            env=dict(os.environ, ACT_TUNE="off"))


def check(process, what, log):
    if process.wait() != 0:
        log.seek(0)
        sys.exit(f"{what}: exit {process.returncode}\n{log.read()[-2000:]}")


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def losses(work, name):
    with open(f"{work}/{name}.json") as file:
        return json.load(file)["losses"]


def straight(arguments, work, log):
    """Runs to the end. Returns [steps, KiB] over time."""
    process, samples = start(arguments, work, "straight", log), []
    while process.poll() is None:
        step, kib = steps_done(work, "straight"), resident_kib(process)
        if kib is not None:
            samples.append([step, kib])
        time.sleep(0.2)
    check(process, "the run", log)
    return samples


def stopped(arguments, work, log):
    """Runs to the end in parts. Returns the losses of all of them."""
    draw = random.Random(arguments.seed)
    stops = sorted(draw.sample(range(1, arguments.steps // SAVE_EVERY), arguments.stops))
    all_losses = []
    for stop in stops + [None]:
        process = start(arguments, work, "parts", log)
        while stop is not None and steps_done(work, "parts") < stop * SAVE_EVERY and process.poll() is None:
            time.sleep(0.02)
        if stop is not None:
            time.sleep(draw.uniform(0, 0.2))
            process.send_signal(signal.SIGTERM)
        check(process, f"the part until step {stop and stop * SAVE_EVERY}", log)
        all_losses += losses(work, "parts")
    return all_losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the folder of actc and actrun")
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.steps < SAVE_EVERY * (arguments.stops + 1) or arguments.steps <= SETTLED + SAVE_EVERY:
        parser.error(f"--steps: {max(SAVE_EVERY * (arguments.stops + 1), SETTLED + SAVE_EVERY + 1)} or more")
    with tempfile.TemporaryDirectory(prefix="act-soak-") as work, open(f"{work}/log", "w+") as log:
        draw = random.Random(arguments.seed)
        write_data(work, "train", SAMPLES, draw)
        write_data(work, "test", EVAL_SAMPLES, draw)
        subprocess.run([f"{arguments.bin}/actc", f"{ROOT}/tests/golden/lenet/model.onnx", "-O", "L2",
                        f"--batch={BATCH}", "--report=none", "-o", f"{work}/plan"], check=True)
        samples = straight(arguments, work, log)
        # At the end the reports are made, which list every loss.
        settled = [kib for step, kib in samples if SETTLED <= step < arguments.steps]
        if len(settled) < 2:
            sys.exit("the run was too short to watch its memory")
        growth = max(settled) - settled[0]
        print(f"{arguments.steps} steps: resident {settled[0]} KiB after {SETTLED} steps, at most {max(settled)} KiB "
              f"before the end, {settled[-1]} KiB at last ({len(settled)} samples)", flush=True)
        if growth > MOST_GROWTH_KIB:
            sys.exit(f"memory grew by {growth} KiB")
        parts = stopped(arguments, work, log)
        if parts != losses(work, "straight"):
            sys.exit("the run that was stopped has other losses")
        for kind in "", ".best":
            if contents(f"{work}/straight{kind}.safetensors") != contents(f"{work}/parts{kind}.safetensors"):
                sys.exit(f"the run that was stopped ends in another checkpoint{kind}")
        print(f"stopped and resumed {arguments.stops} times: all {len(parts)} losses and the checkpoints are equal")


if __name__ == "__main__":
    main()
