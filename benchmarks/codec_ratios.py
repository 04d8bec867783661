#!/usr/bin/env python3
"""Times codes against a plain read or write of the same floats. Prints the table of
docs/measurements/codecs.md.

    codec_ratios.py [--bin build/bin] [--rounds 9]

A round runs every benchmark once, in a new process. Ratios are taken within a round, so that other
work on the machine slows both sides down. The table has the least and the median of all rounds.
Times are processor time of one thread."""
import argparse
import json
import os
import statistics
import subprocess

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def run_once(program):
    """{(benchmark's name, codec): milliseconds}"""
    options = ["--benchmark_filter=^Large", "--benchmark_min_time=0.02", "--benchmark_format=json"]
    done = subprocess.run([program, *options], capture_output=True, text=True, check=True)
    return {(b["name"].split("/")[0], b["label"]): b["cpu_time"] / 1e6 for b in json.loads(done.stdout)["benchmarks"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=f"{ROOT}/build/bin")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    rounds = [run_once(f"{args.bin}/codec_benchmark") for _ in range(args.rounds)]
    plain = {"LargeEncode": ("LargeRead", "none"), "LargeDecode": ("LargeWrite", "none")}

    def cells(kind, codec):
        times = [r[kind, codec] for r in rounds]
        ratios = [r[kind, codec] / r[plain[kind]] for r in rounds]
        return f"{min(times):.2f}, {statistics.median(times):.2f} | {min(ratios):.2f}, {statistics.median(ratios):.2f}"

    for name in plain.values():
        times = [r[name] for r in rounds]
        print(f"{name[0]}: {min(times):.2f}, {statistics.median(times):.2f} ms")
    print("\n| | encode, ms | to a read | decode, ms | to a write |\n|---|---|---|---|---|")
    for codec in dict.fromkeys(codec for kind, codec in rounds[0] if kind == "LargeEncode"):
        print(f"| `{codec}` | {cells('LargeEncode', codec)} | {cells('LargeDecode', codec)} |")


if __name__ == "__main__":
    main()
