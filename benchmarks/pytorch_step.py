#!/usr/bin/env python3
"""Times training steps in PyTorch: forward, cross entropy, backward, update.

    pytorch_step.py MODEL BATCH MODE [--device=cpu] [--optimizer=sgd] [--threads=2] [--steps=5]
MODEL is a model of torchvision, or bert_base_t128 or gpt2_t1024 of transformers (with its fused
attention). It is in training mode, with dropout.
MODE is eager, channels_last, or compile (torch.compile; torchvision's models in channels_last), and
amp or compile_amp: the last two under bfloat16 autocast.
On a card (--device=cuda) cuDNN chooses engines by time, convolutions in float32 may round operands to tf32, which
is PyTorch's default, and products only with --tf32.
Prints one line of JSON. median_seconds and min_seconds leave out the first steps, which compile and allocate: one on
the CPU, five on a card. resident_peak_bytes is of the whole process, allocated_peak_bytes what PyTorch allocated at
most on the card in the steps that count."""
import argparse
import json
import resource
import statistics
import time

import torch
from torch.nn import functional as F


class Bert(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import transformers
        config = transformers.BertConfig(attn_implementation="sdpa", num_labels=2)
        self.net = transformers.BertForSequenceClassification(config)

    def forward(self, tokens):
        return self.net(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits


class Gpt2(torch.nn.Module):
    def __init__(self):
        super().__init__()
        import transformers
        self.net = transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False, attn_implementation="sdpa"))

    def forward(self, tokens):
        return self.net(input_ids=tokens).logits.flatten(0, 1)


def network(name, batch, channels_last):
    """The model, a batch of inputs and their labels."""
    if name == "bert_base_t128":
        return Bert(), torch.randint(0, 30522, (batch, 128)), torch.randint(0, 2, (batch,))
    if name == "gpt2_t1024":
        return Gpt2(), torch.randint(0, 50257, (batch, 1024)), torch.randint(0, 50257, (batch * 1024,))
    import torchvision
    model = getattr(torchvision.models, name)(weights=None)
    image, label = torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))
    if channels_last:
        model, image = model.to(memory_format=torch.channels_last), image.to(memory_format=torch.channels_last)
    return model, image, label


def optimizer_of(name, parameters, on_card):
    if name == "adamw":
        return torch.optim.AdamW(parameters, 1e-4, fused=on_card)
    return torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=1e-4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("batch", type=int)
    parser.add_argument("mode", choices=["eager", "channels_last", "compile", "amp", "compile_amp"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--optimizer", choices=["sgd", "adamw"], default="sgd")
    parser.add_argument("--tf32", action="store_true", help="products may round operands to tf32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    on_card = args.device == "cuda"
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    model, inputs, label = network(args.model, args.batch, args.mode != "eager")
    model, inputs, label = model.to(args.device), inputs.to(args.device), label.to(args.device)
    model.train()
    forward = torch.compile(model) if args.mode.startswith("compile") else model
    optimizer = optimizer_of(args.optimizer, model.parameters(), on_card)
    seconds = []
    first_steps = 5 if on_card else 1
    for step in range(args.steps + first_steps):
        if on_card and step == first_steps:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.mode.endswith("amp")):
            loss = F.cross_entropy(forward(inputs), label)
        loss.backward()
        optimizer.step()
        if on_card:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    counted = seconds[first_steps:]
    result = {"name": "PyTorch " + args.mode, "version": torch.__version__,
              "median_seconds": statistics.median(counted), "min_seconds": min(counted),
              "resident_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if on_card:
        result["allocated_peak_bytes"] = torch.cuda.max_memory_allocated()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
