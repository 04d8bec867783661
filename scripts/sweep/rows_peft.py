"""peft: adapters and other small trained parts beside the frozen weights of models of transformers, made small as in
rows_transformers.py."""

from typing import Any, Dict

from rows import Row

LINEAR = {"target_modules": "all-linear"}
ATTENTION = {"target_modules": ["q_proj", "v_proj"]}
TOKENS = {"num_virtual_tokens": 3, "task_type": "CAUSAL_LM"}
METHODS: Dict[str, Dict[str, Any]] = {  # the config's class and options
    "lora": {"config": "LoraConfig", "r": 4, **LINEAR},
    "rslora": {"config": "LoraConfig", "r": 4, "use_rslora": True, **LINEAR},
    "dora": {"config": "LoraConfig", "r": 4, "use_dora": True, **LINEAR},
    "loha": {"config": "LoHaConfig", "r": 4, **ATTENTION},
    "lokr": {"config": "LoKrConfig", "r": 4, **ATTENTION},
    "vera": {"config": "VeraConfig", "r": 4, "target_modules": ["q_proj", "o_proj"]},
    "oft": {"config": "OFTConfig", "r": 4, "oft_block_size": 0, **ATTENTION},
    "ia3": {
        "config": "IA3Config",
        "target_modules": ["k_proj", "v_proj", "down_proj"],
        "feedforward_modules": ["down_proj"],
    },
    "ln_tuning": {"config": "LNTuningConfig", "target_modules": ["input_layernorm"]},
    "prefix_tuning": {"config": "PrefixTuningConfig", **TOKENS},
    "prompt_tuning": {"config": "PromptTuningConfig", **TOKENS},
}
LANGUAGE = """
gpt2 gpt_neox gptj opt bloom falcon mistral qwen2 qwen3 gemma gemma2 gemma3_text phi phi3 olmo2 stablelm cohere granite
smollm3 starcoder2 bert roberta modernbert t5
"""
ROWS = [Row("peft", f"llama {method}", "llama", options=options) for method, options in METHODS.items()]
ROWS += [Row("peft", f"{name} lora", name, options=METHODS["lora"]) for name in LANGUAGE.split()]
ROWS += [
    Row(
        "peft", "mamba lora", "mamba", options={"config": "LoraConfig", "r": 4, "target_modules": ["in_proj", "x_proj"]}
    ),
    Row("peft", "vit lora", "vit", options={"config": "LoraConfig", "r": 4, **LINEAR}),
    Row("peft", "whisper lora", "whisper", options={"config": "LoraConfig", "r": 4, **LINEAR}),
]
