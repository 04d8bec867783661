"""A row of the sweep as a module with its loss, and its example inputs."""

from __future__ import annotations

import inspect
from typing import Any, Dict, Tuple

import torch
from torch import nn

import build_others
import rows_transformers
from build_torch import build_torch
from rows import BATCH, Row, WithLoss, labels, randomize, without_randomness

TOKENS = 7
# What makes a config of transformers small, wherever it has such a key. Rows give the exceptions.
SMALL: Dict[str, Any] = {
    "vocab_size": 61,
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "embedding_size": 16,
    "emb_dim": 32,
    "dim": 32,
    "hidden_dim": 48,
    "intermediate_size": 48,
    "d_ff": 48,
    "ffn_dim": 48,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "n_inner": 48,
    "d_inner": 48,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_decoder_layers": 2,
    "num_encoder_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "num_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "d_head": 8,
    "max_position_embeddings": 32,
    "n_positions": 32,
    "max_source_positions": 16,
    "max_target_positions": 16,
    "image_size": 16,
    "patch_size": 4,
    "num_labels": 5,
    "projection_dim": 16,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
    "rotary_dim": 4,
    "sliding_window": 4,
    "encoder_no_repeat_ngram_size": 0,
    "moe_num_experts": 4,
    "num_mel_bins": 16,
    "decoder_d_model": 32,
    "decoder_n_heads": 4,
    "decoder_n_layers": 2,
    "num_codebooks": 2,
    "audio_channels": 1,
}
OFF = {
    "use_cache": False,
    "apply_spec_augment": False,
    "mask_time_prob": 0.0,
    "mask_feature_prob": 0.0,
    "output_attentions": False,
}
CLASSES = (
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForCTC",
    "AutoModelForSemanticSegmentation",
    "AutoModelForDepthEstimation",
    "AutoModelForVideoClassification",
    "AutoModelForAudioClassification",
    "AutoModel",
)


def build(row: Row) -> Tuple[nn.Module, Tuple[torch.Tensor, ...], Tuple[str, ...]]:
    """The module `(*inputs, *labels) -> loss` in training mode, example inputs, and their names."""
    torch.manual_seed(0)
    if row.library in ("torch", "torch.nn"):
        return build_torch(row)
    makers = {
        "torchvision": _torchvision,
        "timm": _timm,
        "transformers": _transformers,
        "diffusers": build_others.diffusers,
        "smp": build_others.smp,
        "monai": build_others.monai,
        "peft": _peft,
    }
    net, inputs, classes = makers[row.library](row)
    without_randomness(net)
    randomize(net)
    net.train()
    names = tuple(inputs)
    module = WithLoss(net, names, row.library in ("transformers", "diffusers", "peft")).train()
    torch.manual_seed(1)
    state = {name: b.clone() for name, b in net.named_buffers()}
    with torch.no_grad():
        targets = labels(module.outputs(*inputs.values()), classes)
    tensors = tuple(inputs.values()) + targets
    with torch.no_grad():
        for name, b in net.named_buffers():
            if b.shape == state[name].shape:  # a table of positions grows in the first call
                b.copy_(state[name])
    label_names = ("label",) if len(targets) == 1 else tuple(f"label_{i}" for i in range(len(targets)))
    return module, tensors, names + label_names


def _image(*size: int) -> torch.Tensor:
    return torch.randn(BATCH, 3, *(size if len(size) > 1 else size * 2))


def _torchvision(row: Row):
    import torchvision

    makers = {
        "detection": torchvision.models.detection,
        "segmentation": torchvision.models.segmentation,
        "video": torchvision.models.video,
        "optical_flow": torchvision.models.optical_flow,
    }
    options = {"weights": None, **row.options}
    if row.feed == "backbone":
        net = getattr(torchvision.models.detection, row.model)(
            weights=None, weights_backbone=None, num_classes=5
        ).backbone
    else:
        for home in (torchvision.models, *makers.values()):
            if hasattr(home, row.model):
                net = getattr(home, row.model)(**options)
    if row.feed == "flow":
        return net, {"image1": _image(*row.size), "image2": _image(*row.size)}, False
    return net, {"image": _image(*row.size)}, row.feed == ""


def _timm(row: Row):
    import timm

    net = timm.create_model(row.model, pretrained=False, num_classes=10, **row.options)
    return net, {"image": _image(*row.size)}, True


def _transformers(row: Row):
    import transformers

    config = transformers.CONFIG_MAPPING[row.family.split(":")[0]]
    made = small_config(config, row.options)
    model = row.model or next(name for name in CLASSES if type(made) in getattr(transformers, name)._model_mapping)
    maker = getattr(transformers, model)
    net = maker.from_config(made) if model.startswith("Auto") else maker(made)
    if net._can_set_experts_implementation():
        net.set_experts_implementation("batched_mm")  # the default has sizes that depend on data
    inputs = {name: _feed(name, made, row) for name in (row.feed.split() or _feeds(net))}
    return net, inputs, True


def _peft(row: Row):
    import peft

    base = next(r for r in rows_transformers.ROWS if r.family == row.model)
    net, inputs, classes = _transformers(base)
    options = dict(row.options)
    config = getattr(peft, options.pop("config"))
    return peft.get_peft_model(net, config(**options)), inputs, classes


def small_config(kind: Any, options: Dict[str, Any]) -> Any:
    """The config with small extents; `options` are the exceptions, for a config in it as a dict."""
    default = kind()
    options = dict(options)
    leave = options.pop("leave", "").split()
    given = {}
    for name, value in {**SMALL, **OFF}.items():
        if name not in leave and isinstance(_read(default, name), (int, float)):
            given[name] = value
    for name in default.to_dict():
        if "drop" in name and isinstance(getattr(default, name, None), float):
            given[name] = 0.0
        elif (
            name.endswith("_token_id")
            and isinstance(getattr(default, name, None), int)
            and getattr(default, name) >= SMALL["vocab_size"]
        ):
            given[name] = 2
    for name, part in (getattr(kind, "sub_configs", None) or {}).items():
        if (
            part is not None
            and getattr(part, "model_type", "")
            and hasattr(part, "__init__")
            and getattr(default, name, None) is not None
        ):
            inner = options.get(name, {})
            given[name] = small_config(type(getattr(default, name)), inner if isinstance(inner, dict) else {}).to_dict()
    given.update({k: v for k, v in options.items() if k not in (getattr(kind, "sub_configs", None) or {})})
    return kind(**given)


def _read(config: Any, name: str) -> Any:
    try:
        return getattr(config, name, None)
    except Exception:  # a key that differs from layer to layer refuses to be read as one
        return None


def _feeds(net: nn.Module) -> Tuple[str, ...]:
    """The inputs that forward needs: the model's main one, those of a second encoder, the decoder's."""
    takes = inspect.signature(net.forward).parameters
    main = net.main_input_name
    more = [n for n in ("decoder_input_ids",) if n in takes and main != n]
    if "pixel_values" in takes and "input_ids" in takes and "image_grid_thw" not in takes:
        return ("input_ids", "pixel_values")
    return (main, *more)


def _feed(name: str, config: Any, row: Row) -> torch.Tensor:
    if name in ("input_ids", "decoder_input_ids"):
        count = row.size[0] if row.size != (64,) else TOKENS
        return torch.randint(3, 60, (BATCH, count))
    if name == "attention_mask":
        return torch.ones(BATCH, row.size[0] if row.size != (64,) else TOKENS, dtype=torch.int64)
    vision = getattr(config, "vision_config", config)
    if name == "pixel_values":
        side = getattr(vision, "image_size", 64) if row.size == (64,) else row.size
        side = (side, side) if isinstance(side, int) else tuple(side)
        side = side * 2 if len(side) == 1 else side
        channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3
        lead = side[:-2]  # frames of a clip
        return torch.randn(BATCH, *lead, channels, *side[-2:])
    return torch.randn(BATCH, *row.size)
