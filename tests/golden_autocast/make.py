"""How far the gradient of PyTorch's autocast to bfloat16 is from the truth, for golden cases (../golden).

Writes errors.json. A case's graph runs in float64, where its loss, gradients and five steps of SGD must be
those of expected.safetensors, in float32, and under torch.autocast. An error is |found - truth| / |truth| in the
2-norm, and float64 is the truth.

At one batch that error is a matter of luck: a rounding that moves a number across 0 before a ReLU, or changes
the largest of a pooling window, changes the gradient far more than the rounding itself. So there are 16 batches:
the case's own is first, and the others are made of it (Case.batch). errors.json has the error at each, their
root mean square, and that of each parameter.

`start`: at the case's parameters. `trained`: after the five steps, for cases in which most parameters have no
gradient at the start: a vision transformer's head begins at 0, and no gradient passes it.

    python make.py          needs torch, onnx, numpy, safetensors
"""
import json
import os

import torch
from safetensors.torch import load_file

from torch_graph import TorchGraph

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ["resnet_basic", "resnet_bottleneck", "vgg_bn", "densenet", "mobilenet_v2", "unet"]
CASES += ["vit", "bert", "gpt2", "lstm"]
STEPS, BATCHES = 5, 16
VOCABULARY = {"input_ids": 40, "token": 20}


class Case:
    def __init__(self, name):
        folder = f"{HERE}/../golden/{name}"
        self.name = name
        self.path = next(p for p in (f"{folder}/model.onnx", f"{folder}/model_dynamo.onnx") if os.path.exists(p))
        self.inputs = load_file(f"{folder}/inputs.safetensors")
        self.expected = load_file(f"{folder}/expected.safetensors")
        with open(f"{folder}/case.json") as file:
            info = json.load(file)
        self.rate = info["lr"]
        in_file = {pytorch: onnx for onnx, pytorch in info["aliases"].items()}
        gradients = [n.removeprefix("grad.") for n in self.expected if n.startswith("grad.")]
        self.names = {in_file.get(name, name): name for name in gradients}  # in the file: in PyTorch

    def graph(self, dtype, parameters=None):
        graph = TorchGraph(self.path, set(self.names), dtype)
        with torch.no_grad():
            for name, tensor in (parameters or {}).items():
                graph.parameters[name].copy_(tensor)
        return graph

    def batch(self, k):
        """The case's inputs with images times 1 + k / 16, tokens + k. tests/e2e/autocast_error_test.cc makes
        the same."""
        inputs = dict(self.inputs)
        for name, tensor in inputs.items():
            if name == "image":
                inputs[name] = tensor * (1 + k / BATCHES)
            elif name in VOCABULARY:
                inputs[name] = (tensor + k) % VOCABULARY[name]
        return inputs

    def gradient(self, graph, k=0, autocast=False):
        """The loss, and gradients by PyTorch's names, in float64."""
        for tensor in graph.parameters.values():
            tensor.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = graph.loss(self.batch(k))
        loss.backward()
        gradient = {name: graph.parameters[in_file].grad.double() for in_file, name in self.names.items()}
        return loss.item(), gradient


def norm(tensors):
    return sum(t.double().square().sum().item() for t in tensors) ** 0.5


def check(case, name, tensor, scale):
    """expected.safetensors is float64 rounded to float32. `scale`: what a tensor of zeros is compared with."""
    expected = case.expected[name].double()
    error = (tensor.double() - expected).norm().item()
    assert error <= 1e-6 * (expected.norm().item() + scale), f"{case.name}: {name} is off by {error}"


def train(case):
    """Five steps in float64, compared with the expected numbers. Returns the first gradient, and the
    parameters after the last step."""
    graph = case.graph(torch.float64)
    optimizer = torch.optim.SGD(graph.parameters.values(), case.rate, momentum=0.9, weight_decay=5e-4)
    losses = []
    for step in range(STEPS):
        loss, gradient = case.gradient(graph)
        losses.append(loss)
        if step == 0:
            first = gradient
            for name, tensor in gradient.items():
                check(case, f"grad.{name}", tensor, norm(gradient.values()))
        optimizer.step()
    check(case, "loss", torch.tensor(losses[0]), 0)
    check(case, "losses", torch.tensor(losses), 0)
    for name, pytorch in case.names.items():
        check(case, f"param.{pytorch}", graph.parameters[name].detach(), 1)
    return first, {name: tensor.detach() for name, tensor in graph.parameters.items()}


def errors(truth, found):
    (loss, gradient), (other_loss, other) = truth, found
    whole = norm(gradient.values())
    distance = {name: (other[name] - tensor).norm().item() for name, tensor in gradient.items()}
    # Some gradients are 0 but for float64's rounding, as that of a bias before a normalization.
    trained = [name for name, tensor in gradient.items() if tensor.norm() > 1e-9 * whole]
    return {
        "loss": abs(other_loss - loss) / abs(loss),
        "gradient": sum(d * d for d in distance.values()) ** 0.5 / whole,
        "parameters": {name: distance[name] / gradient[name].norm().item() for name in trained},
    }


def root_mean_square(values):
    values = list(values)
    return (sum(v * v for v in values) / len(values)) ** 0.5


def measure(case, parameters):
    exact, found = [], []
    for k in range(BATCHES):
        truth = case.gradient(case.graph(torch.float64, parameters), k)
        exact.append(errors(truth, case.gradient(case.graph(torch.float32, parameters), k)))
        found.append(errors(truth, case.gradient(case.graph(torch.float32, parameters), k, autocast=True)))
    result = {}
    for key in ("gradient", "loss"):
        result[key], float32 = (root_mean_square(e[key] for e in runs) for runs in (found, exact))
        print(f"{case.name}: {key} {result[key]:.3e}, in float32 {float32:.1e}")
        assert float32 < result[key] / 20, "float32 is no better"
    result["batches"] = [{key: e[key] for key in ("gradient", "loss")} for e in found]
    names = found[0]["parameters"]
    result["parameters"] = {name: root_mean_square(e["parameters"][name] for e in found) for name in names}
    return result


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    result = {"torch": torch.__version__, "cases": {}}
    for name in CASES:
        case = Case(name)
        start, trained = train(case)
        result["cases"][name] = {"start": measure(case, None)}
        if 2 * sum(not tensor.any() for tensor in start.values()) > len(start):
            result["cases"][name]["trained"] = measure(case, trained)
    with open(f"{HERE}/errors.json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
