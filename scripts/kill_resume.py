#!/usr/bin/env python3
"""Kills actrun with SIGKILL at random moments and starts the same command again, until its training is done. What is
then in the folder must be what a run leaves that was never killed: the same files, with the same bytes.

    kill_resume.py --bin build/bin [--kills N] [--seed S]

Half of the kills come at a random time, the others while a file is being written. Needs only Python's standard
library."""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DIGITS = os.path.join(ROOT, "models/data/digits")
# What is compiled, and how it trains. The last batch of an epoch is partial, and an epoch has 23 steps.
JOBS = {
    "momentum": (["-O", "L3"], ["--momentum=0.9", "--lr=0.1", "--lr-schedule=cosine", "--epochs=1"]),
    "adapt": (["-O", "L2", "--optimizer=adamw"], ["--lr=0.002", "--adapt-every=7", "--steps=27"]),
    "accumulate": (["-O", "L1", "--accumulate=3"], ["--momentum=0.9", "--lr=0.1", "--epochs=2"]),
    "bfloat16": (["-O", "L3", "--compute=bf16"], ["--momentum=0.9", "--lr=0.1", "--steps=20"]),
}


def data(flag, name):
    return f"--{flag}=image={DIGITS}/{name}_image.npy,label={DIGITS}/{name}_label.npy"


def contents(folder):
    files = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            files[name] = file.read()
    return files


def is_complete(content):
    """Whether a safetensors file has the bytes that its header tells."""
    length = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + length])
    except ValueError:
        return False
    return 8 + length + max(entry["data_offsets"][1] for entry in header.values()) == len(content)


class Killer:
    def __init__(self, binaries, work, draw):
        self.binaries, self.work, self.draw = binaries, work, draw
        self.kills = self.in_a_save = self.jobs = 0
        self.environment = dict(os.environ, ACT_TUNE="off")
        for name, (compile_flags, _) in JOBS.items():
            model = os.path.join(ROOT, "models/digits_resnet.onnx")
            command = [f"{binaries}/actc", model, "--batch=64", "--report=none", "-o", f"{work}/{name}.plan"]
            subprocess.run(command + compile_flags, check=True)

    def command(self, name, folder, flags):
        run = [f"{self.binaries}/actrun", f"{self.work}/{name}.plan", "--threads=1", f"--save={folder}/run.safetensors"]
        return run + [data("data", "train"), data("eval-data", "test")] + JOBS[name][1] + flags

    def start(self, name, folder, flags):
        command = self.command(name, folder, flags + ["--resume", "--save-best=loss"])
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def kill(self, process, folder, seconds):
        """Whether it was killed, and not done before."""
        aims_at_a_save = self.draw.random() < 0.5
        end = time.monotonic() + self.draw.uniform(0, seconds)
        while process.poll() is None:
            if time.monotonic() > end and (not aims_at_a_save or self.being_written(folder)):
                process.send_signal(signal.SIGKILL)
                process.wait()
                return process.returncode == -signal.SIGKILL
            time.sleep(0.0005)
        return False

    @staticmethod
    def being_written(folder):
        return any(re.search(r"\.step-.*\.tmp$", name) for name in os.listdir(folder))

    def one_job(self, most_kills):
        name = self.draw.choice(sorted(JOBS))
        flags = [f"--save-every={self.draw.randint(1, 3)}", f"--keep={self.draw.randint(1, 3)}"]
        whole, killed = os.path.join(self.work, "whole"), os.path.join(self.work, "killed")
        for folder in whole, killed:
            shutil.rmtree(folder, ignore_errors=True)
            os.mkdir(folder)
        start = time.monotonic()
        process = self.start(name, whole, flags)
        log = process.communicate()[0].decode()
        if process.returncode != 0:
            sys.exit(f"{name}: exit {process.returncode}\n{log}")
        seconds = time.monotonic() - start
        kills = 0
        while True:
            process = self.start(name, killed, flags)
            if kills < most_kills and self.kill(process, killed, seconds):
                kills += 1
                self.check_files(name, killed)
                continue
            log = process.communicate()[0].decode()
            if process.returncode != 0:
                sys.exit(f"{name} {flags}: exit {process.returncode} after {kills} kills\n{log}")
            break
        self.kills += kills
        self.jobs += 1
        expected, found = contents(whole), contents(killed)
        if found != expected:
            differ = sorted(n for n in set(found) | set(expected) if found.get(n) != expected.get(n))
            sys.exit(f"{name} {flags}: after {kills} kills these files differ: {', '.join(differ)}")

    def check_files(self, name, folder):
        files = contents(folder)
        self.in_a_save += self.being_written(folder)
        temporary = [file for file in files if file.endswith(".tmp")]
        if len(temporary) > 1:
            sys.exit(f"{name}: temporary files pile up: {', '.join(temporary)}")
        for file, content in files.items():
            if file.endswith(".safetensors") and not is_complete(content):
                sys.exit(f"{name}: {file} is not complete")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="the folder of actc and actrun")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="act-kills-") as work:
        killer = Killer(arguments.bin, work, random.Random(arguments.seed))
        while killer.kills < arguments.kills:
            killer.one_job(arguments.kills - killer.kills)
            if sys.stderr.isatty():
                print(f"\r{killer.kills} of {arguments.kills} kills", end="", file=sys.stderr)
        print(f"{killer.kills} kills, {killer.in_a_save} of them in the middle of a save, in {killer.jobs} jobs: "
              "every job ended in the bytes of the run that was not killed")


if __name__ == "__main__":
    main()
