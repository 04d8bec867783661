"""segmentation_models_pytorch: each decoder after the smallest encoder."""

from rows import Row

OPTIONS = {"encoder_weights": None, "classes": 3}
DECODERS = "Unet UnetPlusPlus MAnet Linknet FPN PSPNet DeepLabV3 DeepLabV3Plus UPerNet Segformer"
ROWS = [
    Row("smp", decoder.lower(), decoder, (64,), {"encoder_name": "resnet18", **OPTIONS}) for decoder in DECODERS.split()
]
ROWS += [
    Row("smp", "pan", "PAN", (128,), {"encoder_name": "resnet18", **OPTIONS}),
    Row("smp", "dpt", "DPT", (64,), {"encoder_name": "tu-vit_tiny_patch16_224", "dynamic_img_size": True, **OPTIONS}),
]
