"""Imported once by the process from which rows are forked: loads what most rows need."""

import torch.onnx._internal.torchscript_exporter.utils  # noqa: F401
import transformers

transformers.logging.set_verbosity_error()
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel  # noqa: E402,F401
from transformers import ViTConfig, ViTForImageClassification  # noqa: E402,F401
from transformers.models.auto import modeling_auto  # noqa: E402,F401

transformers.AutoModelForCausalLM.from_config(GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=8))
