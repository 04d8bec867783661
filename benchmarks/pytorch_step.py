#!/usr/bin/env python3
"""Times training steps of a torchvision model in PyTorch on the CPU: forward, cross entropy, backward, SGD with momentum.

    pytorch_step.py MODEL BATCH MODE [--threads=2] [--steps=5]
MODE: eager, channels_last, compile (torch.compile in channels_last). Prints one JSON line: median_seconds and min_seconds without the
first step, which compiles and allocates, and resident_peak_bytes of the whole process."""
import argparse
import json
import resource
import statistics
import time

import torch
import torchvision


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("mode", choices=["eager", "channels_last", "compile"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = getattr(torchvision.models, args.model)(weights=None).train()
    image, label = torch.randn(args.batch, 3, 224, 224), torch.randint(0, 1000, (args.batch,))
    if args.mode != "eager":
        model = model.to(memory_format=torch.channels_last)
        image = image.to(memory_format=torch.channels_last)
    forward = torch.compile(model) if args.mode == "compile" else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    seconds = []
    for _ in range(args.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(forward(image), label).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"name": "PyTorch " + args.mode, "version": torch.__version__,
                      "median_seconds": statistics.median(seconds[1:]), "min_seconds": min(seconds[1:]),
                      "resident_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
