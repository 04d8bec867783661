#!/usr/bin/env python3
"""Prints the demo's result from the JSON reports of a folder: demo_table.py FOLDER"""
import json
import os
import sys

MIB = 1 << 20


def load(folder, name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def table(title, columns, rows):
    """rows: (label, one text per column)."""
    print(title)
    print(" " * 34 + "".join(f"{c:>16}" for c in columns))
    for label, cells in rows:
        print(f"  {label:<32}" + "".join(f"{c:>16}" for c in cells))
    print()


def main(folder):
    levels = ["L0", "L3"]
    plans = [load(folder, f"{level}.plan.json") for level in levels]
    runs = [load(folder, f"{level}.run.json") for level in levels]
    table("ResNet-14 on 8 x 8 digits, batch 64, 20 epochs", [f"{level}" for level in levels], [
        ("test accuracy", [f"{100 * r['evaluations'][-1]['accuracy']:.2f} %" for r in runs]),
        ("test loss", [f"{r['evaluations'][-1]['loss']:.4f}" for r in runs]),
        ("saved activations, MiB", [f"{p['saved_bytes'] / MIB:.3f}" for p in plans]),
        ("peak planned, bytes", [f"{p['peak_bytes']:,}" for p in plans]),
        ("peak used, bytes", [f"{r['peak_bytes']:,}" for r in runs]),
        ("step, median ms", [f"{1e3 * r['step_seconds']['median']:.2f}" for r in runs]),
    ])
    big = [load(folder, f"resnet50_{level}.json") for level in levels]
    table("ResNet-50, 224 x 224, batch 16 (planned)", levels, [
        ("saved activations, MiB", [f"{p['saved_bytes'] / MIB:.1f}" for p in big]),
        ("peak, MiB", [f"{p['peak_bytes'] / MIB:.1f}" for p in big]),
        ("lower bound, MiB", [f"{p['lower_bound_bytes'] / MIB:.1f}" for p in big]),
        ("largest batch in 8 GiB", [str(p["max_batch"]["8GiB"]) for p in big]),
    ])
    if any(p["peak_bytes"] != r["peak_bytes"] for p, r in zip(plans, runs)):
        sys.exit("demo: a peak that was used is not the planned one")


if __name__ == "__main__":
    main(sys.argv[1])
