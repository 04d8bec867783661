"""diffusers: the networks that its pipelines train, small: U-Nets, autoencoders and transformers of images, clips and sound."""

from typing import Any, Dict, Tuple, Union

from rows import Row

# What an input holds: extents of normal numbers after the batch; "step", an integer below 1,000 or "share", a number in
# 0..1, for each sample; "class", an integer below 10; "positions", 3 coordinates of each of that many tokens.
Input = Union[str, Tuple[Any, ...]]

UNET = {"layers_per_block": 1, "block_out_channels": (16, 32), "norm_num_groups": 4}
CROSS = {
    **UNET,
    "in_channels": 4,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "cross_attention_dim": 24,
    "attention_head_dim": 8,
}
CROSS_UP = {"out_channels": 4, "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
HEADS = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
TEXT = {"encoder_hidden_states": (7, 24)}

MODELS: Dict[str, Tuple[str, Dict[str, Any], Dict[str, Input]]] = {  # class, options, inputs
    "unet": (
        "UNet2DModel",
        {
            **UNET,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
            "attention_head_dim": 8,
        },
        {"sample": (3, 16, 16), "timestep": "step"},
    ),
    "unet_condition": (
        "UNet2DConditionModel",
        {**CROSS, **CROSS_UP},
        {"sample": (4, 16, 16), "timestep": "step", **TEXT},
    ),
    "unet_xl": (
        "UNet2DConditionModel",
        {**CROSS, **CROSS_UP, "use_linear_projection": True, "transformer_layers_per_block": (2, 1)},
        {"sample": (4, 16, 16), "timestep": "step", **TEXT},
    ),
    "controlnet": (
        "ControlNetModel",
        {**CROSS, "conditioning_embedding_out_channels": (8, 16)},
        {"sample": (4, 16, 16), "timestep": "step", **TEXT, "controlnet_cond": (3, 32, 32)},
    ),
    "unet_1d": (
        "UNet1DModel",
        {
            "sample_size": 32,
            "in_channels": 2,
            "out_channels": 2,
            "block_out_channels": (32, 32, 64),
            "extra_in_channels": 64,
        },
        {"sample": (2, 32), "timestep": "step"},
    ),
    "unet_3d": (
        "UNet3DConditionModel",
        {
            **UNET,
            "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "cross_attention_dim": 24,
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
            "attention_head_dim": 8,
        },
        {"sample": (4, 3, 16, 16), "timestep": "step", **TEXT},
    ),
    "autoencoder_kl": (
        "AutoencoderKL",
        {**UNET, "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
        {"sample": (3, 16, 16)},
    ),
    "autoencoder_tiny": (
        "AutoencoderTiny",
        {
            "encoder_block_out_channels": (16, 16),
            "decoder_block_out_channels": (16, 16),
            "num_encoder_blocks": (1, 1),
            "num_decoder_blocks": (1, 1),
        },
        {"sample": (3, 16, 16)},
    ),
    "autoencoder_dc": (
        "AutoencoderDC",
        {
            "latent_channels": 4,
            "attention_head_dim": 8,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (16, 32),
            "decoder_block_out_channels": (16, 32),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
            "upsample_block_type": "interpolate",
        },
        {"sample": (3, 16, 16)},
    ),
    "autoencoder_wan": (
        "AutoencoderKLWan",
        {"base_dim": 8, "z_dim": 4, "dim_mult": [1, 2], "num_res_blocks": 1, "temperal_downsample": [False]},
        {"sample": (3, 1, 16, 16)},
    ),
    "dit": (
        "DiTTransformer2DModel",
        {**HEADS, "in_channels": 4, "sample_size": 8, "num_embeds_ada_norm": 10, "norm_num_groups": 4},
        {"hidden_states": (4, 8, 8), "timestep": "step", "class_labels": "class"},
    ),
    "pixart": (
        "PixArtTransformer2DModel",
        {
            **HEADS,
            "in_channels": 4,
            "out_channels": 8,
            "sample_size": 8,
            "cross_attention_dim": 32,
            "caption_channels": 24,
            "norm_num_groups": 4,
            "use_additional_conditions": False,
        },
        {"hidden_states": (4, 8, 8), **TEXT, "timestep": "step"},
    ),
    "sd3": (
        "SD3Transformer2DModel",
        {
            **HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "sample_size": 8,
            "pos_embed_max_size": 8,
            "joint_attention_dim": 24,
            "caption_projection_dim": 32,
            "pooled_projection_dim": 20,
        },
        {"hidden_states": (4, 8, 8), **TEXT, "pooled_projections": (20,), "timestep": "step"},
    ),
    "flux": (
        "FluxTransformer2DModel",
        {
            **HEADS,
            "num_layers": 1,
            "num_single_layers": 1,
            "in_channels": 4,
            "joint_attention_dim": 24,
            "pooled_projection_dim": 20,
            "axes_dims_rope": (4, 6, 6),
        },
        {
            "hidden_states": (9, 4),
            **TEXT,
            "pooled_projections": (20,),
            "timestep": "share",
            "img_ids": ("positions", 9),
            "txt_ids": ("positions", 7),
        },
    ),
    "sana": (
        "SanaTransformer2DModel",
        {
            **HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "num_cross_attention_heads": 2,
            "cross_attention_head_dim": 16,
            "cross_attention_dim": 32,
            "caption_channels": 24,
            "sample_size": 8,
        },
        {"hidden_states": (4, 8, 8), **TEXT, "timestep": "step"},
    ),
    "lumina2": (
        "Lumina2Transformer2DModel",
        {
            "sample_size": 8,
            "in_channels": 4,
            "hidden_size": 32,
            "num_layers": 1,
            "num_refiner_layers": 1,
            "cap_feat_dim": 24,
            "num_attention_heads": 2,
            "num_kv_heads": 1,
            "multiple_of": 8,
            "axes_dim_rope": (4, 6, 6),
            "axes_lens": (16, 16, 16),
        },
        {"hidden_states": (4, 8, 8), "timestep": "share", **TEXT, "encoder_attention_mask": ("ones", 7)},
    ),
    "cogvideox": (
        "CogVideoXTransformer3DModel",
        {
            **HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "time_embed_dim": 16,
            "text_embed_dim": 24,
            "sample_width": 8,
            "sample_height": 8,
            "sample_frames": 1,
            "max_text_seq_length": 7,
        },
        {"hidden_states": (1, 4, 8, 8), **TEXT, "timestep": "step"},
    ),
    "ltx_video": (
        "LTXVideoTransformer3DModel",
        {**HEADS, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 32, "caption_channels": 24},
        {
            "hidden_states": (8, 4),
            **TEXT,
            "timestep": "step",
            "encoder_attention_mask": ("ones", 7),
            "num_frames": ("is", 2),
            "height": ("is", 2),
            "width": ("is", 2),
        },
    ),
    "wan": (
        "WanTransformer3DModel",
        {
            **HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 24,
            "freq_dim": 16,
            "ffn_dim": 48,
            "rope_max_seq_len": 32,
        },
        {"hidden_states": (4, 1, 8, 8), "timestep": "step", **TEXT},
    ),
}
ROWS = [Row("diffusers", family, model, options=options) for family, (model, options, _) in MODELS.items()]
