"""torch.nn: a layer, a function of torch.nn.functional or a loss a row, after a scale and a shift that train.

A row of LAYERS makes a module, and has the extents of the module's inputs without the batch. A row of LOSSES has the
extents of the predictions, and how the labels are drawn (build_torch.py)."""

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from rows import Row


class Apply(nn.Module):
    """function(*inputs), or function(module, *inputs) of a module that trains."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.modules_of = nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*self.modules_of, *inputs)


def _box(x):
    """Corners of a box a row: the second lies right of and above the first."""
    return torch.cat([x[:, :2], x[:, :2] + 1 + x[:, 2:].abs()], 1)


LAYERS = {
    "Conv1d": (lambda: nn.Conv1d(6, 5, 3, padding="same", padding_mode="circular"), (6, 9)),
    "Conv1d (dilated and grouped)": (lambda: nn.Conv1d(6, 4, 3, stride=2, dilation=2, groups=2, padding=1), (6, 11)),
    "Conv2d (reflect)": (lambda: nn.Conv2d(4, 5, (3, 5), padding=(1, 2), padding_mode="reflect"), (4, 7, 8)),
    "Conv2d (replicate)": (lambda: nn.Conv2d(4, 5, 3, padding=1, padding_mode="replicate", bias=False), (4, 7, 8)),
    "Conv2d (valid)": (lambda: nn.Conv2d(4, 6, 2, stride=3, padding="valid"), (4, 8, 9)),
    "Conv3d": (lambda: nn.Conv3d(3, 4, (2, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1)), (3, 4, 6, 5)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(6, 4, 4, stride=3, padding=1, output_padding=2), (6, 5)),
    "ConvTranspose2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (4, 5, 6),
    ),
    "ConvTranspose2d (dilated)": (lambda: nn.ConvTranspose2d(4, 6, 3, dilation=2), (4, 5, 6)),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(3, 4, 2, stride=2), (3, 3, 4, 3)),
    "Unfold": (lambda: nn.Unfold((2, 3), dilation=2, padding=1, stride=2), (3, 8, 9)),
    "Fold": (lambda: nn.Fold((6, 7), (2, 2), stride=2, padding=1), (12, 16)),
    "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1), (4, 9)),
    "MaxPool2d (dilated and ceil)": (lambda: nn.MaxPool2d(3, 2, dilation=2, ceil_mode=True), (3, 10, 11)),
    "MaxPool3d": (lambda: nn.MaxPool3d((1, 2, 2)), (3, 3, 6, 7)),
    "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False), (4, 9)),
    "AvgPool2d (ceil)": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (3, 8, 10)),
    "AvgPool2d (divisor)": (lambda: nn.AvgPool2d(2, divisor_override=3), (3, 8, 10)),
    "AvgPool3d": (lambda: nn.AvgPool3d(2), (3, 4, 6, 7)),
    "LPPool1d": (lambda: nn.LPPool1d(2, 3, stride=2), (3, 9)),
    "LPPool2d": (lambda: nn.LPPool2d(2, 3, stride=2), (3, 9, 10)),
    "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(3), (4, 9)),
    "AdaptiveAvgPool2d (uneven)": (lambda: nn.AdaptiveAvgPool2d((3, 4)), (3, 8, 10)),
    "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d((2, None, 1)), (3, 4, 3, 5)),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(3), (4, 9)),
    "AdaptiveMaxPool2d (uneven)": (lambda: nn.AdaptiveMaxPool2d((3, 4)), (3, 8, 10)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(1), (3, 5, 6)),
    "MaxUnpool2d": (lambda: Apply(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)), (3, 6, 8)),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_ratio=0.6), (3, 9, 9)),
    "ConstantPad1d": (lambda: nn.ConstantPad1d((1, 2), 0.5), (4, 6)),
    "ZeroPad2d (cropping)": (lambda: nn.ZeroPad2d((1, -2, 0, 1)), (3, 6, 7)),
    "ReflectionPad1d": (lambda: nn.ReflectionPad1d((2, 1)), (4, 6)),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d((2, 1, 0, 3)), (3, 6, 7)),
    "ReflectionPad3d": (lambda: nn.ReflectionPad3d(1), (2, 3, 4, 5)),
    "ReplicationPad2d": (lambda: nn.ReplicationPad2d((2, 1, 0, 3)), (3, 6, 7)),
    "ReplicationPad3d": (lambda: nn.ReplicationPad3d(1), (2, 3, 4, 5)),
    "CircularPad2d": (lambda: nn.CircularPad2d((2, 1, 0, 3)), (3, 6, 7)),
    "Upsample (nearest)": (lambda: nn.Upsample(scale_factor=2), (3, 4, 5)),
    "Upsample (nearest to a size)": (lambda: nn.Upsample(size=(7, 9)), (3, 4, 5)),
    "Upsample (nearest-exact)": (lambda: Apply(lambda x: F.interpolate(x, (7, 9), mode="nearest-exact")), (3, 4, 5)),
    "Upsample (linear)": (lambda: nn.Upsample(scale_factor=3, mode="linear"), (3, 5)),
    "Upsample (bilinear)": (lambda: nn.Upsample(scale_factor=1.7, mode="bilinear"), (3, 4, 5)),
    "Upsample (bilinear corners)": (lambda: nn.Upsample(size=(7, 9), mode="bilinear", align_corners=True), (3, 4, 5)),
    "Upsample (bicubic)": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (3, 4, 5)),
    "Upsample (trilinear)": (lambda: nn.Upsample(scale_factor=2, mode="trilinear"), (3, 2, 4, 5)),
    "interpolate (antialias)": (
        lambda: Apply(lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True)),
        (3, 8, 9),
    ),
    "interpolate (area)": (lambda: Apply(lambda x: F.interpolate(x, (3, 4), mode="area")), (3, 8, 9)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (8, 3, 4)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (2, 6, 4)),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(3), (6, 4, 5)),
    "grid_sample": (lambda: Apply(lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False)), (3, 5, 6), (4, 3, 2)),
    "grid_sample (border)": (
        lambda: Apply(lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True)),
        (3, 5, 6),
        (4, 3, 2),
    ),
    "grid_sample (nearest)": (
        lambda: Apply(lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False)),
        (3, 5, 6),
        (4, 3, 2),
    ),
    "affine_grid": (
        lambda: Apply(
            lambda x, t: F.grid_sample(x, F.affine_grid(t, list(x.shape), align_corners=False), align_corners=False)
        ),
        (3, 5, 6),
        (2, 3),
    ),
    "ELU": (lambda: nn.ELU(), (5, 6)),
    "Hardshrink": (lambda: nn.Hardshrink(), (5, 6)),
    "Hardsigmoid": (lambda: nn.Hardsigmoid(), (5, 6)),
    "Hardtanh": (lambda: nn.Hardtanh(), (5, 6)),
    "Hardswish": (lambda: nn.Hardswish(), (5, 6)),
    "LeakyReLU": (lambda: nn.LeakyReLU(), (5, 6)),
    "LogSigmoid": (lambda: nn.LogSigmoid(), (5, 6)),
    "PReLU": (lambda: nn.PReLU(), (5, 6)),
    "ReLU": (lambda: nn.ReLU(), (5, 6)),
    "ReLU6": (lambda: nn.ReLU6(), (5, 6)),
    "SELU": (lambda: nn.SELU(), (5, 6)),
    "CELU": (lambda: nn.CELU(), (5, 6)),
    "GELU": (lambda: nn.GELU(), (5, 6)),
    "Sigmoid": (lambda: nn.Sigmoid(), (5, 6)),
    "SiLU": (lambda: nn.SiLU(), (5, 6)),
    "Mish": (lambda: nn.Mish(), (5, 6)),
    "Softplus": (lambda: nn.Softplus(), (5, 6)),
    "Softshrink": (lambda: nn.Softshrink(), (5, 6)),
    "Softsign": (lambda: nn.Softsign(), (5, 6)),
    "Tanh": (lambda: nn.Tanh(), (5, 6)),
    "Tanhshrink": (lambda: nn.Tanhshrink(), (5, 6)),
    "GLU": (lambda: nn.GLU(), (5, 6)),
    "Softmin": (lambda: nn.Softmin(1), (5, 6)),
    "Softmax": (lambda: nn.Softmax(1), (5, 6)),
    "LogSoftmax": (lambda: nn.LogSoftmax(1), (5, 6)),
    "GELU (tanh)": (lambda: nn.GELU("tanh"), (5, 6)),
    "PReLU (channels)": (lambda: nn.PReLU(5), (5, 6)),
    "Softplus (beta)": (lambda: nn.Softplus(beta=3, threshold=2), (5, 6)),
    "Threshold": (lambda: nn.Threshold(0.2, -1.0), (5, 6)),
    "Softmax2d": (lambda: nn.Softmax2d(), (4, 3, 5)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(6), (6,)),
    "BatchNorm1d (sequence)": (lambda: nn.BatchNorm1d(6, momentum=None), (6, 5)),
    "BatchNorm2d (no statistics)": (lambda: nn.BatchNorm2d(4, track_running_stats=False, affine=False), (4, 5, 6)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3), (3, 2, 4, 5)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4), (4, 7)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (4, 5, 6)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), (6, 4, 5)),
    "GroupNorm (vectors)": (lambda: nn.GroupNorm(3, 6, affine=False), (6,)),
    "LayerNorm": (lambda: nn.LayerNorm((4, 5), bias=False), (3, 4, 5)),
    "RMSNorm": (lambda: nn.RMSNorm(6), (5, 6)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), (6, 4, 5)),
    "normalize": (lambda: Apply(lambda x: F.normalize(x, p=3.0, dim=1)), (5, 6)),
    "weight_norm": (lambda: torch.nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)), (4, 6)),
    "spectral_norm": (lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5)), (4, 6)),
    "RNN": (lambda: nn.RNN(6, 5, batch_first=True), (7, 6)),
    "RNN (relu and two layers)": (
        lambda: nn.RNN(6, 5, 2, nonlinearity="relu", batch_first=True, bidirectional=True),
        (7, 6),
    ),
    "LSTM": (lambda: nn.LSTM(6, 5, batch_first=True), (7, 6)),
    "LSTM (bidirectional)": (lambda: nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True, bias=False), (7, 6)),
    "LSTM (projected)": (lambda: nn.LSTM(6, 5, batch_first=True, proj_size=3), (7, 6)),
    "GRU": (lambda: nn.GRU(6, 5, batch_first=True), (7, 6)),
    "GRU (bidirectional)": (lambda: nn.GRU(6, 5, 2, batch_first=True, bidirectional=True), (7, 6)),
    "RNNCell": (lambda: nn.RNNCell(6, 5), (6,)),
    "LSTMCell": (lambda: nn.LSTMCell(6, 5), (6,)),
    "GRUCell": (lambda: nn.GRUCell(6, 5), (6,)),
    "MultiheadAttention": (
        lambda: Apply(lambda a, x: a(x, x, x)[0], nn.MultiheadAttention(8, 2, batch_first=True)),
        (7, 8),
    ),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=True),
        (7, 8),
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True),
        (5, 8),
        (7, 8),
    ),
    "Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 12, 0.0, batch_first=True), (5, 8), (7, 8)),
    "attention (causal)": (lambda: Apply(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)), (2, 7, 8)),
    "attention (grouped)": (
        lambda: Apply(lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True)),
        (4, 7, 8),
        (2, 7, 8),
    ),
    "attention (mask)": (
        lambda: Apply(lambda q, m: F.scaled_dot_product_attention(q, q, q, m > 0, scale=0.3)),
        (2, 7, 8),
        (1, 7, 7),
    ),
    "Linear": (lambda: nn.Linear(6, 5), (3, 2, 6)),
    "Bilinear": (lambda: nn.Bilinear(5, 6, 4), (3, 5), (3, 6)),
    "Embedding": (lambda: nn.Embedding(11, 6, padding_idx=0, scale_grad_by_freq=False), "tokens"),
    "Embedding (max norm)": (lambda: nn.Embedding(11, 6, max_norm=0.5), "tokens"),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(11, 6, mode="mean"), "tokens"),
    "one_hot": (lambda: Apply(lambda l, i: l(F.one_hot(i, 11).float()), nn.Linear(11, 4)), "tokens"),
    "CosineSimilarity": (lambda: nn.CosineSimilarity(dim=1), (6, 5), (6, 5)),
    "PairwiseDistance": (lambda: nn.PairwiseDistance(p=2.0), (6,), (6,)),
    "Flatten": (lambda: nn.Flatten(2), (3, 4, 5)),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 3)), (6, 5)),
}
LOSSES = {
    "L1Loss": (lambda: nn.L1Loss(), (5,), "like"),
    "MSELoss": (lambda: nn.MSELoss(reduction="sum"), (5,), "like"),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(), (5,), "class"),
    "CrossEntropyLoss (weights)": (
        lambda: nn.CrossEntropyLoss(torch.tensor([0.1, 0.4, 0.2, 1.0, 0.3]), ignore_index=2),
        (5,),
        "class",
    ),
    "CrossEntropyLoss (maps)": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), (5, 3, 4), "class"),
    "CrossEntropyLoss (probabilities)": (lambda: nn.CrossEntropyLoss(), (5,), "share"),
    "NLLLoss": (lambda: Apply(lambda x, y: F.nll_loss(F.log_softmax(x, 1), y)), (5, 4), "class"),
    "PoissonNLLLoss": (lambda: nn.PoissonNLLLoss(full=True), (5,), "unit"),
    "GaussianNLLLoss": (lambda: Apply(lambda x, y: F.gaussian_nll_loss(x, y, x.square() + 0.1)), (5,), "like"),
    "KLDivLoss": (lambda: Apply(lambda x, y: F.kl_div(F.log_softmax(x, 1), y, reduction="batchmean")), (5,), "share"),
    "KLDivLoss (log)": (
        lambda: Apply(lambda x, y: F.kl_div(F.log_softmax(x, 1), y.log_softmax(1), log_target=True, reduction="sum")),
        (5,),
        "like",
    ),
    "BCELoss": (lambda: Apply(lambda x, y: F.binary_cross_entropy(x.sigmoid(), y)), (5,), "unit"),
    "BCEWithLogitsLoss": (
        lambda: nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0, 0.5, 1.0])),
        (5,),
        "unit",
    ),
    "HuberLoss": (lambda: nn.HuberLoss(delta=0.6), (5,), "like"),
    "SmoothL1Loss": (lambda: nn.SmoothL1Loss(beta=0.6), (5,), "like"),
    "SoftMarginLoss": (lambda: nn.SoftMarginLoss(), (5,), "sign"),
    "HingeEmbeddingLoss": (lambda: nn.HingeEmbeddingLoss(), (5,), "sign"),
    "MultiLabelMarginLoss": (lambda: nn.MultiLabelMarginLoss(), (5,), "labels"),
    "MultiLabelSoftMarginLoss": (lambda: nn.MultiLabelSoftMarginLoss(), (5,), "unit"),
    "MultiMarginLoss": (lambda: nn.MultiMarginLoss(), (5,), "class"),
    "CosineEmbeddingLoss": (
        lambda: Apply(lambda x, y: F.cosine_embedding_loss(x, y, torch.tensor([1.0]), 0.1)),
        (5,),
        "like",
    ),
    "MarginRankingLoss": (
        lambda: Apply(lambda x, y: F.margin_ranking_loss(x, y, torch.ones_like(x), 0.1)),
        (5,),
        "like",
    ),
    "TripletMarginLoss": (lambda: Apply(lambda x, y: F.triplet_margin_loss(x, y, x.flip(1))), (5,), "like"),
    "TripletMarginWithDistanceLoss": (
        lambda: Apply(lambda x, y: F.triplet_margin_with_distance_loss(x, y, x.flip(1), swap=True)),
        (5,),
        "like",
    ),
    "CTCLoss": (
        lambda: Apply(
            lambda x, y: F.ctc_loss(
                x.log_softmax(2).transpose(0, 1), y, torch.full((len(y),), 9), torch.full((len(y),), 3)
            )
        ),
        (9, 5),
        "transcript",
    ),
    "focal loss": (
        lambda: Apply(lambda x, y: torchvision.ops.sigmoid_focal_loss(x, y, reduction="mean")),
        (5,),
        "unit",
    ),
    "dice loss": (
        lambda: Apply(lambda x, y: 1 - 2 * (x.sigmoid() * y).sum((1, 2, 3)).mean() / (x.sigmoid() + y).sum()),
        (2, 4, 5),
        "unit",
    ),
    "contrastive loss": (
        lambda: Apply(lambda x, y: F.cross_entropy(F.normalize(x) @ F.normalize(y).T * 5, torch.arange(len(x)))),
        (5,),
        "like",
    ),
    "AdaptiveLogSoftmaxWithLoss": (
        lambda: Apply(lambda a, x, y: a(x, y).loss, nn.AdaptiveLogSoftmaxWithLoss(6, 5, [2, 4])),
        (6,),
        "first class",
    ),
    "generalized IoU": (
        lambda: Apply(lambda x, y: torchvision.ops.generalized_box_iou_loss(_box(x), _box(y), reduction="mean")),
        (4,),
        "like",
    ),
    "roi_align": (
        lambda: Apply(
            lambda x, y: (
                torchvision.ops.roi_align(x, torch.tensor([[0.0, 0, 0, 3, 3], [1, 1, 1, 4, 4]]), 2).std() + y.mean()
            )
        ),
        (2, 6, 6),
        "like",
    ),
    "nms": (lambda: Apply(lambda x, y: x[torchvision.ops.nms(_box(x), y[:, 0], 0.5)].square().mean()), (4,), "like"),
    "deform_conv2d": (
        lambda: Apply(
            lambda conv, x, y: conv(x, y.repeat(1, 9, 1, 1)).square().mean(),
            torchvision.ops.DeformConv2d(2, 3, 3, padding=1),
        ),
        (2, 5, 6),
        "like",
    ),
}
ROWS = [Row("torch.nn", family, family) for family in (*LAYERS, *LOSSES)]
