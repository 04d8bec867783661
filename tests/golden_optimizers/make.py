"""Five steps of each optimizer by PyTorch in float64.

Writes model.onnx, x.npy, y.npy and expected.safetensors.

    python make.py          needs torch, onnx, numpy, safetensors
"""
import math

import numpy
import onnx
import torch
from onnx import TensorProto, helper
from safetensors.numpy import save_file

SAMPLES, STEPS = 8, 5
W1, B1, W2, W3, SCALE = range(5)
SHAPES = {"w1": (6, 8), "b1": (8,), "w2": (8, 8), "w3": (8, 3), "scale": ()}

# tests/e2e/optimizer_test.cc gives the tools the same numbers.
CASES = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda p: torch.optim.SGD(p, 0.05, momentum=0.8, weight_decay=0.01, nesterov=True),
    "plain_sgd": lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-8, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, betas=(0.9, 0.999), eps=1e-4, weight_decay=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(
        p, 0.05, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.1, eps=1e-10),
    "lamb": lambda p: Lamb(p, 0.02, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1),
    "adam_clipped": lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.95), eps=1e-8, weight_decay=0.1),
    "sgd_clipped": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=0.01),
    "adamw_groups": lambda p: torch.optim.AdamW(
        [{"params": [p[B1], p[SCALE], p[W3]], "weight_decay": 0}, {"params": [p[W1]], "lr": 0.001},
         {"params": [p[W2]], "lr": 0.03}], 0.01, betas=(0.9, 0.999), eps=1e-4, weight_decay=0.1),
    "lamb_groups": lambda p: Lamb(
        [{"params": [p[W1], p[B1]], "weight_decay": 0}, {"params": [p[W2], p[W3], p[SCALE]]}],
        0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1),
}
CLIP_NORM = {"adam_clipped": 0.5, "sgd_clipped": 0.5}


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of You et al., Large Batch Optimization for Deep Learning (2020), with phi(z) = z.
    PyTorch does not have it."""

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                mean = m / (1 - beta1 ** state["step"])
                deviation = (v / (1 - beta2 ** state["step"])).sqrt()
                direction = mean / (deviation + group["eps"]) + group["weight_decay"] * p
                norm, length = p.norm(), direction.norm()
                ratio = norm / length if norm > 0 and length > 0 else 1
                p.sub_(group["lr"] * ratio * direction)


def initial():
    random = numpy.random.default_rng(1)
    values = {name: (0.5 * random.standard_normal(shape)).astype(numpy.float32) for name, shape in SHAPES.items()}
    values["scale"] = numpy.float32(1.5).reshape(())
    x = random.standard_normal((SAMPLES, 6)).astype(numpy.float32)
    y = random.standard_normal((SAMPLES, 3)).astype(numpy.float32)
    return values, x, y


def loss_of(p, x, y):  # w2 is used twice: its gradient is a sum
    h = torch.tanh(x @ p["w1"] + p["b1"])
    h = torch.tanh(torch.tanh(h @ p["w2"]) @ p["w2"])
    d = (h @ p["w3"]) * p["scale"] - y
    return (d * d).mean()


def write_model(values):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a1"]),
        helper.make_node("Add", ["a1", "b1"], ["a2"]),
        helper.make_node("Tanh", ["a2"], ["h1"]),
        helper.make_node("MatMul", ["h1", "w2"], ["a3"]),
        helper.make_node("Tanh", ["a3"], ["h2"]),
        helper.make_node("MatMul", ["h2", "w2"], ["a4"]),
        helper.make_node("Tanh", ["a4"], ["h3"]),
        helper.make_node("MatMul", ["h3", "w3"], ["a5"]),
        helper.make_node("Mul", ["a5", "scale"], ["a6"]),
        helper.make_node("Sub", ["a6", "y"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["d2"]),
        helper.make_node("ReduceMean", ["d2"], ["loss"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 6]),
         helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
        [onnx.numpy_helper.from_array(v, name) for name, v in values.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, "model.onnx")


def train(case, values, x, y):
    p = {name: torch.tensor(v, dtype=torch.float64, requires_grad=True) for name, v in values.items()}
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    optimizer = CASES[case](list(p.values()))
    losses, result, scales = [], {}, []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(p, x, y)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            result.update({f"grad.{name}": t.grad.clone() for name, t in p.items()})
        if case in CLIP_NORM:
            norm = torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP_NORM[case])
            scales.append(min(1, CLIP_NORM[case] / (norm.item() + 1e-6)))
        optimizer.step()
    print(case, losses, scales)
    names = {"momentum_buffer": "velocity"}  # PyTorch's name -> ours
    for name, t in p.items():
        result[f"param.{name}"] = t.detach()
        for state, value in optimizer.state[t].items():
            if state != "step":
                result[f"optimizer.{name}.{names.get(state, state)}"] = value
    result["losses"] = torch.tensor(losses)
    assert all(math.isfinite(v) for v in losses)
    return {f"{case}/{name}": t.numpy().astype(numpy.float32) for name, t in result.items()}


def main():
    values, x, y = initial()
    write_model(values)
    numpy.save("x.npy", x)
    numpy.save("y.npy", y)
    expected = {}
    for case in CASES:
        expected.update(train(case, values, x, y))
    save_file(expected, "expected.safetensors")


main()
