"""monai: networks for volumes, small."""

from typing import Any, Dict, Tuple

from rows import Row

VOLUME = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
SMALL = (8, 16, 32)

MODELS: Dict[str, Tuple[str, int, Dict[str, Any]]] = {  # class, extent of the volume, options
    "unet": ("UNet", 16, {**VOLUME, "channels": SMALL, "strides": (2, 2), "num_res_units": 2}),
    "basic_unet": ("BasicUNet", 32, {**VOLUME, "features": (8, 8, 16, 16, 32, 8)}),
    "dynunet": (
        "DynUNet",
        16,
        {
            **VOLUME,
            "kernel_size": (3, 3, 3),
            "strides": (1, 2, 2),
            "upsample_kernel_size": (2, 2),
            "filters": SMALL,
            "deep_supervision": False,
            "res_block": True,
        },
    ),
    "attention_unet": ("AttentionUnet", 16, {**VOLUME, "channels": SMALL, "strides": (2, 2)}),
    "segresnet": ("SegResNet", 16, {**VOLUME, "init_filters": 8, "blocks_down": (1, 1), "blocks_up": (1,)}),
    "vnet": ("VNet", 16, VOLUME),
    "unetr": (
        "UNETR",
        16,
        {
            "in_channels": 1,
            "out_channels": 2,
            "img_size": (16, 16, 16),
            "feature_size": 4,
            "hidden_size": 24,
            "mlp_dim": 48,
            "num_heads": 4,
        },
    ),
    "swin_unetr": ("SwinUNETR", 64, {"in_channels": 1, "out_channels": 2, "feature_size": 12}),
    "highresnet": ("HighResNet", 16, VOLUME),
    "flexible_unet": (
        "FlexibleUNet",
        32,
        {"spatial_dims": 2, "in_channels": 3, "out_channels": 2, "backbone": "efficientnet-b0"},
    ),
    "densenet": ("DenseNet", 32, {**VOLUME, "init_features": 8, "growth_rate": 4, "block_config": (2, 2)}),
    "resnet": ("resnet10", 16, {"spatial_dims": 3, "n_input_channels": 1, "num_classes": 3}),
    "senet": ("SEResNet50", 16, {"spatial_dims": 3, "in_channels": 1, "num_classes": 3}),
    "efficientnet": (
        "EfficientNetBN",
        32,
        {"model_name": "efficientnet-b0", "pretrained": False, "spatial_dims": 3, "in_channels": 1, "num_classes": 3},
    ),
    "vit": (
        "ViT",
        16,
        {
            "in_channels": 1,
            "img_size": (16, 16, 16),
            "patch_size": (8, 8, 8),
            "hidden_size": 24,
            "mlp_dim": 48,
            "num_layers": 2,
            "num_heads": 4,
            "classification": True,
            "post_activation": None,
        },
    ),
    "autoencoder": ("AutoEncoder", 16, {**VOLUME, "channels": (8, 16), "strides": (2, 2)}),
    "diffusion_unet": (
        "DiffusionModelUNet",
        16,
        {
            **VOLUME,
            "out_channels": 1,
            "channels": (8, 16),
            "attention_levels": (False, True),
            "num_head_channels": 8,
            "norm_num_groups": 4,
            "num_res_blocks": 1,
        },
    ),
}
ROWS = [Row("monai", family, model, (extent,), options) for family, (model, extent, options) in MODELS.items()]
