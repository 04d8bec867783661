"""torchvision: the smallest variant of each family."""

from rows import Row

CLASSIFIERS = {  # family: model, extent of the image
    "alexnet": ("alexnet", 224),
    "convnext": ("convnext_tiny", 64),
    "densenet": ("densenet121", 64),
    "efficientnet": ("efficientnet_b0", 64),
    "efficientnet_v2": ("efficientnet_v2_s", 64),
    "googlenet": ("googlenet", 64),
    "inception": ("inception_v3", 96),
    "maxvit": ("maxvit_t", 224),
    "mnasnet": ("mnasnet0_5", 64),
    "mobilenet_v2": ("mobilenet_v2", 64),
    "mobilenet_v3": ("mobilenet_v3_small", 64),
    "regnet_x": ("regnet_x_400mf", 64),
    "regnet_y": ("regnet_y_400mf", 64),
    "resnet": ("resnet18", 64),
    "resnet_bottleneck": ("resnet50", 64),
    "resnext": ("resnext50_32x4d", 64),
    "shufflenet_v2": ("shufflenet_v2_x0_5", 64),
    "squeezenet": ("squeezenet1_1", 64),
    "swin": ("swin_t", 64),
    "swin_v2": ("swin_v2_t", 64),
    "vgg": ("vgg11", 224),
    "vgg_bn": ("vgg11_bn", 224),
    "vit": ("vit_b_32", 64),
    "wide_resnet": ("wide_resnet50_2", 64),
}
OPTIONS = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception": {"aux_logits": False, "init_weights": False},
    "vit": {"image_size": 64},
}
ROWS = [
    Row("torchvision", family, model, (size,), {"num_classes": 10, **OPTIONS.get(family, {})})
    for family, (model, size) in CLASSIFIERS.items()
]
ROWS += [
    Row("torchvision", family, model, (size,), {"weights_backbone": None, "num_classes": 5}, "map")
    for family, model, size in (
        ("deeplabv3", "deeplabv3_mobilenet_v3_large", 64),
        ("fcn", "fcn_resnet50", 64),
        ("lraspp", "lraspp_mobilenet_v3_large", 64),
    )
]
ROWS += [
    Row("torchvision", family, model, size, {"num_classes": 10})
    for family, model, size in (
        ("video_r3d", "r3d_18", (4, 32, 32)),
        ("video_mc3", "mc3_18", (4, 32, 32)),
        ("video_r2plus1d", "r2plus1d_18", (4, 32, 32)),
        ("video_s3d", "s3d", (16, 224, 224)),
        ("video_mvit", "mvit_v2_s", (16, 224, 224)),
        ("video_swin3d", "swin3d_t", (4, 32, 32)),
    )
]
ROWS += [
    Row("torchvision", f"backbone of {family}", model, (64,), {}, "backbone")
    for family, model in (
        ("faster rcnn", "fasterrcnn_resnet50_fpn"),
        ("faster rcnn mobilenet", "fasterrcnn_mobilenet_v3_large_320_fpn"),
        ("retinanet", "retinanet_resnet50_fpn_v2"),
        ("fcos", "fcos_resnet50_fpn"),
        ("ssd", "ssd300_vgg16"),
        ("ssdlite", "ssdlite320_mobilenet_v3_large"),
    )
]
ROWS += [Row("torchvision", "raft", "raft_small", (128, 128), {}, "flow")]
