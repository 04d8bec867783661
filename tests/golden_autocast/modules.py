"""Finds in an ONNX graph the calls of PyTorch's modules that its exporters spell out.

What autocast rounds depends on these calls: nn.Linear rounds once after it added its bias, a product and an
addition round twice, and nn.GELU computes in float32 what five operators would round five times.
"""
import dataclasses


@dataclasses.dataclass
class Call:
    op: str
    inputs: list
    outputs: list
    attributes: dict


class _Graph:
    def __init__(self, calls, constants, parameters):
        self.calls, self.constants, self.parameters = list(calls), constants, parameters
        self.maker = {name: call for call in calls for name in call.outputs}
        self.readers = {}
        for call in calls:
            for name in call.inputs:
                self.readers.setdefault(name, []).append(call)

    def made_by(self, name, op):
        call = self.maker.get(name)
        return call if call and call.op == op else None

    def only_reader(self, call, op):
        readers = self.readers.get(call.outputs[0], [])
        return readers[0] if len(readers) == 1 and readers[0].op == op else None

    def other(self, call, name):
        return call.inputs[1] if call.inputs[0] == name else call.inputs[0]

    def is_number(self, name, value):
        constant = self.constants.get(name)
        return constant is not None and constant.numel() == 1 and abs(constant.item() - value) < 1e-6

    def replace(self, last, inner, call):
        """`call` comes in the place of `last`; `inner` are the other calls that it stands for, last one first.
        Those that something else reads stay."""
        self.calls[next(i for i, c in enumerate(self.calls) if c is last)] = call
        gone = {id(last)}
        for c in inner:
            if all(id(reader) in gone for reader in self.readers.get(c.outputs[0], [])):
                gone.add(id(c))
        self.calls = [c for c in self.calls if id(c) not in gone]


def _linear(graph, product):
    """x @ transposed weight (+ bias)"""
    transpose = graph.made_by(product.inputs[1], "Transpose")
    if not transpose or transpose.inputs[0] not in graph.parameters:
        return
    inputs, last, inner = [product.inputs[0], transpose.inputs[0]], product, [transpose]
    add = graph.only_reader(product, "Add")
    if add and graph.other(add, product.outputs[0]) in graph.parameters:
        inputs.append(graph.other(add, product.outputs[0]))
        last, inner = add, [product, transpose]
    graph.replace(last, inner, Call("Linear", inputs, last.outputs, {}))


def _gelu(graph, erf):
    """x (1 + erf(x / sqrt(2))) / 2"""
    div = graph.made_by(erf.inputs[0], "Div")
    add = graph.only_reader(erf, "Add")
    mul = add and graph.only_reader(add, "Mul")
    half = mul and graph.only_reader(mul, "Mul")
    if not (div and half and graph.is_number(div.inputs[1], 2**0.5) and div.inputs[0] in mul.inputs):
        return
    numbers = ((graph.other(add, erf.outputs[0]), 1), (graph.other(half, mul.outputs[0]), 0.5))
    if not all(graph.is_number(name, value) for name, value in numbers):
        return
    graph.replace(half, [mul, add, erf, div], Call("Gelu", [div.inputs[0]], half.outputs, {}))


def _attention(graph, softmax):
    """softmax((q s) (k^T s)) v: so exporters write F.scaled_dot_product_attention. Models that multiply q and k
    themselves scale the product, and stay as they are."""
    scores = graph.made_by(softmax.inputs[0], "MatMul")
    result = graph.only_reader(softmax, "MatMul")
    if not (scores and result):
        return
    q, k = (graph.made_by(name, "Mul") for name in scores.inputs)
    if not (q and k and all(graph.made_by(mul.inputs[1], "Sqrt") for mul in (q, k))):
        return
    transpose = graph.made_by(k.inputs[0], "Transpose")
    if not transpose or transpose.attributes["perm"] != [0, 1, 3, 2]:
        return
    call = Call("Attention", [q.inputs[0], transpose.inputs[0], result.inputs[1]], result.outputs, {})
    graph.replace(result, [softmax, scores, q, k, transpose], call)


def find_modules(calls, constants, parameters):
    """constants: tensors by name. parameters: names of trained tensors."""
    graph = _Graph(calls, constants, parameters)
    for op, find in (("MatMul", _linear), ("Erf", _gelu), ("Softmax", _attention)):
        for call in [c for c in graph.calls if c.op == op]:
            find(graph, call)
    return graph.calls
