#!/usr/bin/env python3
"""Models with ONNX's training information (TrainingInfoProto), and what five steps of their algorithms give.

    make.py     writes CASE.onnx, inputs.safetensors and expected.safetensors beside this file

Losses and gradients are PyTorch's in float64; the updates are ONNX's definitions of Adam, Momentum and Adagrad
(ai.onnx.preview.training, version 1) in numpy float64. Needs onnx, torch, numpy and safetensors; the tests need
none of these."""
import os

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
DOMAIN = "ai.onnx.preview.training"
SAMPLES, STEPS = 6, 5
rng = np.random.default_rng(7)
START = {name: rng.normal(size=shape).astype(np.float32) * 0.5
         for name, shape in {"w1": (5, 7), "b1": (7,), "w2": (7, 3)}.items()}
NORM = {"scale": np.full(7, 1.25, np.float32), "shift": np.full(7, 0.1, np.float32),
        "mean": np.full(7, 0.2, np.float32), "var": np.full(7, 1.5, np.float32)}
X = rng.normal(size=(SAMPLES, 5)).astype(np.float32)
Y = rng.integers(0, 3, size=SAMPLES)


class Case:
    def __init__(self, op=None, attrs=None, rate=0.05, count=0, state=0.0, norm=False, split=False, fed=False,
                 initialized=False):
        self.op, self.attrs, self.rate, self.count, self.state = op, attrs or {}, rate, count, state
        self.norm, self.split, self.fed, self.initialized = norm, split, fed, initialized
        self.states = {"Adam": ["V", "H"], "Momentum": ["V"], "Adagrad": ["H"], None: []}[op]
        self.parameters = ["w1", "b1", "w2"] + (["scale", "shift"] if norm else [])


CASES = {
    "adam": Case("Adam", dict(alpha=0.8, beta=0.95, epsilon=1e-3, norm_coefficient=0.1, norm_coefficient_post=0.02)),
    # The usual count, which starts at 1. The rate is an input.
    "adam_from_one": Case("Adam", dict(epsilon=1e-4), count=1, fed=True),
    # A node for each parameter.
    "momentum": Case("Momentum", dict(alpha=0.9, beta=0.3, norm_coefficient=0.05, mode="standard"), split=True),
    "nesterov": Case("Momentum", dict(alpha=0.8, beta=1.0, norm_coefficient=0.0, mode="nesterov")),
    "adagrad": Case("Adagrad", dict(decay_factor=0.25, epsilon=1e-4, norm_coefficient=0.01), count=2, state=0.5),
    # p - r g, spelled out. Running statistics are bound too.
    "plain": Case(norm=True, rate=0.1),
    "initialized": Case("Momentum", dict(alpha=0.5, beta=1.0, norm_coefficient=0.0, mode="standard"), initialized=True),
}


def tensor(array, name):
    return numpy_helper.from_array(np.asarray(array), name)


def info(name, elem, dims):
    return helper.make_tensor_value_info(name, elem, dims)


def model(case):
    """x [N,5] -> Gemm, (BatchNormalization,) Tanh, MatMul -> scores [N,3]; the algorithm has the loss."""
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["a"], name="first")]
    weights = [tensor(np.zeros_like(v) if case.initialized else v, k) for k, v in START.items()]
    hidden = "a"
    if case.norm:
        nodes.append(helper.make_node("BatchNormalization", ["a", "scale", "shift", "mean", "var"],
                                      ["n", "mean_new", "var_new"], name="norm", training_mode=1, momentum=0.7))
        weights += [tensor(v, k) for k, v in NORM.items()]
        hidden = "n"
    nodes += [helper.make_node("Tanh", [hidden], ["h"], name="tanh"),
              helper.make_node("MatMul", ["h", "w2"], ["scores"], name="second")]
    graph = helper.make_graph(nodes, "model", [info("x", TensorProto.FLOAT, ["N", 5])],
                              [info("scores", TensorProto.FLOAT, ["N", 3])], weights)

    p = case.parameters
    steps = [helper.make_node("SoftmaxCrossEntropyLoss", ["scores", "y"], ["loss"], name="criterion"),
             helper.make_node("Gradient", p + ["x", "y"], ["d_" + n for n in p], name="gradient", domain=DOMAIN,
                              xs=p, zs=["x", "y"], y="loss")]
    inputs = [info("y", TensorProto.INT64, ["N"])]
    extra, update = [], {}
    if case.fed:
        inputs.append(info("R", TensorProto.FLOAT, []))
    else:
        extra.append(tensor(np.float32(case.rate), "R"))
    if case.op:
        extra += [tensor(np.int64(case.count), "T"), tensor(np.int64(1), "one")]
        steps.append(helper.make_node("Add", ["T", "one"], ["T_new"], name="count"))
        update["T"] = "T_new"
        shapes = {t.name: list(t.dims) for t in weights}
        for group in ([[n] for n in p] if case.split else [p]):
            ins, outs = ["R", "T"] + group + ["d_" + n for n in group], [n + "_new" for n in group]
            for state in case.states:
                for n in group:
                    extra.append(tensor(np.full(shapes[n], case.state, np.float32), f"{state}_{n}"))
                    update[f"{state}_{n}"] = f"{state}_{n}_new"
                ins += [f"{state}_{n}" for n in group]
                outs += [f"{state}_{n}_new" for n in group]
            steps.append(helper.make_node(case.op, ins, outs, name="update_" + group[0], domain=DOMAIN, **case.attrs))
    else:
        for n in p:
            steps += [helper.make_node("Mul", ["R", "d_" + n], ["s_" + n], name="scale_" + n),
                      helper.make_node("Sub", [n, "s_" + n], [n + "_new"], name="step_" + n)]
        update |= {"mean": "mean_new", "var": "var_new"}
    update |= {n: n + "_new" for n in p}
    algorithm = helper.make_graph(steps, "algorithm", inputs,
                                  [info(v, TensorProto.INT64 if v == "T_new" else TensorProto.FLOAT, None)
                                   for v in update.values()], extra)
    initialization, bindings = None, []
    if case.initialized:
        draw = [helper.make_node("RandomNormal", [], ["r1"], name="r1", shape=[5, 7], scale=0.5, mean=1.0, seed=3.0),
                helper.make_node("RandomUniform", [], ["r2"], name="r2", shape=[7, 3], low=-0.5, high=0.5),
                helper.make_node("ConstantOfShape", ["seven"], ["r3"], name="r3", value=tensor(np.float32([0.25]), "v"))]
        initialization = helper.make_graph(draw, "initialization", [], [], [tensor(np.int64([7]), "seven")])
        bindings = [("w1", "r1"), ("w2", "r2"), ("b1", "r3")]
    training = helper.make_training_info(algorithm, list(update.items()), initialization, bindings or None)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)])
    m.ir_version = 8
    m.training_info.append(training)
    return m


def loss_and_gradients(case, p, stats):
    t = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in p.items()}
    a = torch.tensor(X, dtype=torch.float64) @ t["w1"] + t["b1"]
    if case.norm:
        mean, var = a.mean(0), a.var(0, unbiased=False)
        stats["mean"] = stats["mean"] * 0.7 + mean.detach().numpy() * 0.3
        stats["var"] = stats["var"] * 0.7 + var.detach().numpy() * 0.3  # ONNX: the population's variance
        a = (a - mean) / torch.sqrt(var + 1e-5) * t["scale"] + t["shift"]
    loss = torch.nn.functional.cross_entropy(torch.tanh(a) @ t["w2"], torch.tensor(Y))
    loss.backward()
    return loss.item(), {k: v.grad.numpy() for k, v in t.items()}


def update(case, p, g, v, h, t):
    a, r = case.attrs, case.rate
    if case.op is None:
        return p - r * g, v, h
    g = a.get("norm_coefficient", 0) * p + g
    if case.op == "Adam":
        alpha, beta = a.get("alpha", 0.9), a.get("beta", 0.999)
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        rate = r * np.sqrt(1 - beta ** t) / (1 - alpha ** t) if t > 0 else r
        return (1 - a.get("norm_coefficient_post", 0)) * (p - rate * v / (np.sqrt(h) + a.get("epsilon", 1e-6))), v, h
    if case.op == "Momentum":
        v = a["alpha"] * v + (a["beta"] if t > 0 else 1) * g
        return p - r * (g + a["alpha"] * v if a["mode"] == "nesterov" else v), v, h
    h = h + g * g
    return p - r / (1 + t * a["decay_factor"]) * g / (np.sqrt(h) + a["epsilon"]), v, h


def main():
    expected = {}
    for name, case in CASES.items():
        onnx.save(model(case), os.path.join(HERE, name + ".onnx"))
        if case.initialized:
            continue
        p = {k: (START | NORM)[k].astype(np.float64) for k in case.parameters}
        v, h = ({k: np.full_like(w, case.state) for k, w in p.items()} for _ in range(2))
        stats, losses = {k: NORM[k].astype(np.float64) for k in ("mean", "var")}, []
        for step in range(STEPS):
            loss, g = loss_and_gradients(case, p, stats)
            losses.append(loss)
            if step == 0:
                expected |= {f"{name}/grad.{k}": w for k, w in g.items()}
            for k in p:
                p[k], v[k], h[k] = update(case, p[k], g[k], v[k], h[k], case.count + step)
        expected[f"{name}/losses"] = np.array(losses)
        expected |= {f"{name}/param.{k}": w for k, w in p.items()}
        for key, values, op in (("velocity", v, "Momentum"), ("exp_avg", v, "Adam"), ("exp_avg_sq", h, "Adam"),
                                ("sum", h, "Adagrad")):
            if case.op == op:
                expected |= {f"{name}/optimizer.{k}.{key}": w for k, w in values.items()}
        if case.norm:
            expected |= {f"{name}/buffer.{k}": w for k, w in stats.items()}
    save_file({k: np.ascontiguousarray(w, np.float32) for k, w in expected.items()},
              os.path.join(HERE, "expected.safetensors"))
    save_file({"x": X, "y": Y}, os.path.join(HERE, "inputs.safetensors"))


if __name__ == "__main__":
    main()
