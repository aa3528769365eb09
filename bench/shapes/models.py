#!/usr/bin/env python3
"""Layers of well-known models:  models.py > layers.json; models.py --others > others.json; models.py --third > third.json

Where draw.py draws what layers look like, this lists what they are: two hundred layers of image, speech, language and recommendation models,
convolutions and pooling in both layouts; two hundred others, of other models and at other sizes of image, sequence and batch; and nearly
three hundred of models unlike those: faces, games, sensors, radar, graphs, audio, large windows. The document has the form of
tests/data/workloads.json."""
import argparse
import json

entries = []


def add(name, family, op, params, epilogue=(), dtype="f32"):
    entries.append({"name": name, "family": family, "op": op, "dtype": dtype, "params": params, "epilogue": list(epilogue)})


def conv(name, image, channels, window, stride=1, pad=None, groups=1, batch=1, dilation=1, epilogue=("bias", "relu"), dtype="f32"):
    """image h × w, channels in → out, window r × s; pad: as wide as the image stays, unless given."""
    (h, w), (ci, co), (r, s) = image, channels, window
    pad = [dilation * (r - 1) // 2, dilation * (s - 1) // 2] if pad is None else pad
    for layout in ("NHWC", "NCHW") if dtype == "f32" else ("NHWC",):
        p = {"n": batch, "h": h, "w": w, "ci": ci, "co": co, "r": r, "s": s, "stride": stride,
             "pad": pad[0] if isinstance(pad, list) and pad[0] == pad[1] else pad, "groups": groups, "layout": layout}
        if dilation != 1:
            p["dilation"] = dilation
        if dtype == "bf16":
            p["out"] = "bf16"
        family = "depthwise" if groups == ci and groups > 1 else f"conv_{dtype}"
        add(f"{name}_{layout.lower() if dtype == 'f32' else dtype}", family, "conv2d", p, epilogue, dtype)


def windows(layout, pools):
    for op, h, w, c, window, stride, pad in pools:
        (r, s) = window if isinstance(window, list) else (window, window)
        p = {"n": 1, "h": h, "w": w, "c": c, "r": r, "s": s, "stride": stride, "pad": pad, "layout": layout}
        add(f"{op}_{r}x{s}_{h}x{w}x{c}_{layout.lower()}", "pool", op, p)


def gemms(layers):
    for dtype, out in (("f32", {}), ("bf16", {"out": "bf16"}), ("s8", {"out": "s32"})):
        for name, m, n, k, epilogue in layers:
            add(f"{name}_{dtype}", f"gemm_{dtype}", "matmul", {"m": m, "n": n, "k": k} | out, epilogue if dtype != "s8" else (), dtype)


def batched(layers):
    for name, batch, m, n, k in layers:
        add(name, "gemm_f32", "matmul", {"m": m, "n": n, "k": k, "batch": batch})


def mlps(layers):
    for batch, dims in layers:
        add(f"mlp_{batch}_" + "_".join(map(str, dims)), "mlp", "mlp", {"batch": batch, "dims": dims})


def attentions(layers):
    for heads, seq, dim in layers:
        add(f"attention_{heads}_{seq}_{dim}", "attention", "attention", {"heads": heads, "seq": seq, "dim": dim, "scale": dim ** -0.5})


def of(op, shape):
    return f"{op}_" + "x".join(map(str, shape))


def rows(family, op, shapes, **more):
    for shape in shapes:
        add(of(op, shape), family, op, {"shape": shape} | more)


def maps(layers):
    for shape, function in layers:
        add(of(function, shape), "elementwise", "bias_act", {"shape": shape}, ("bias", function))


def transposes(layers, named=False):
    """named: by the permutation, too"""
    for shape, perm in layers:
        add(of("transpose", shape) + ("_" + "".join(map(str, perm)) if named else ""), "transpose", "transpose", {"shape": shape, "perm": perm})


def sums(layers):
    for shape, axis in layers:
        add(of("sum", shape) + f"_{axis}", "reduction", "reduce_sum", {"shape": shape, "axis": axis})


def convolutions():
    conv("inception_1x7", (17, 17), (160, 192), (1, 7))
    conv("inception_7x1", (17, 17), (128, 128), (7, 1))
    conv("inception_stem", (299, 299), (3, 32), (3, 3), 2, 0)
    conv("inception_valid", (149, 149), (32, 32), (3, 3), 1, 0)
    conv("mobilenet2_expand", (112, 112), (16, 96), (1, 1))
    conv("mobilenet2_project", (56, 56), (144, 24), (1, 1), epilogue=("bias",))
    conv("mobilenet2_last", (7, 7), (320, 1280), (1, 1))
    conv("mobilenet2_dw_s2", (112, 112), (96, 96), (3, 3), 2, 1, 96)
    conv("mobilenet2_dw_7", (7, 7), (960, 960), (3, 3), groups=960)
    conv("mobilenet3_dw5_s2", (56, 56), (72, 72), (5, 5), 2, 2, 72)
    conv("mobilenet3_dw5", (14, 14), (672, 672), (5, 5), groups=672, epilogue=("bias", "silu"))
    conv("convnext_dw7_56", (56, 56), (96, 96), (7, 7), groups=96, epilogue=("bias",))
    conv("convnext_dw7_7", (7, 7), (768, 768), (7, 7), groups=768, epilogue=("bias",))
    conv("convnext_stem", (224, 224), (3, 96), (4, 4), 4, 0, epilogue=("bias",))
    conv("vit_patches", (224, 224), (3, 768), (16, 16), 16, 0, epilogue=("bias",))
    conv("resnext_groups", (56, 56), (128, 128), (3, 3), groups=32)
    conv("regnet_groups", (28, 28), (208, 208), (3, 3), groups=13)
    conv("shufflenet_1x1", (28, 28), (58, 58), (1, 1))
    conv("shufflenet_dw", (28, 28), (58, 58), (3, 3), groups=58, epilogue=("bias",))
    conv("squeezenet_3x3", (55, 55), (16, 64), (3, 3))
    conv("squeezenet_classes", (13, 13), (512, 1000), (1, 1))
    conv("densenet_3x3", (28, 28), (128, 32), (3, 3), epilogue=("bias",))
    conv("densenet_1x1", (56, 56), (224, 128), (1, 1))
    conv("fpn_3x3", (25, 42), (256, 256), (3, 3), epilogue=("bias",))
    conv("rpn_boxes", (50, 84), (256, 12), (1, 1), epilogue=("bias",))
    conv("unet_valid", (70, 70), (128, 128), (3, 3), 1, 0)
    conv("unet_classes", (388, 388), (64, 2), (1, 1), epilogue=("bias",))
    conv("yolo_stem", (320, 320), (3, 32), (6, 6), 2, 2, epilogue=("bias", "silu"))
    conv("yolo_s2", (80, 80), (64, 128), (3, 3), 2, 1, epilogue=("bias", "silu"))
    conv("yolo_head", (20, 20), (512, 255), (1, 1), epilogue=("bias",))
    conv("deeplab_dilated", (33, 33), (256, 64), (3, 3), dilation=6)
    conv("alexnet_1", (224, 224), (3, 64), (11, 11), 4, 2)
    conv("alexnet_2", (27, 27), (64, 192), (5, 5))
    conv("crnn_3x3", (4, 27), (256, 512), (3, 3))
    conv("crnn_2x2", (2, 27), (512, 512), (2, 2), 1, 0)
    conv("crnn_s21", (32, 100), (64, 128), (3, 3), [2, 1], 1)
    conv("deepspeech_41x11", (161, 200), (1, 32), (41, 11), 2, [20, 5])
    conv("keywords_10x4", (49, 10), (1, 64), (10, 4), 2, [4, 1])
    conv("espcn_1", (224, 224), (1, 64), (5, 5), epilogue=("bias", "tanh"))
    conv("espcn_3", (224, 224), (32, 9), (3, 3), epilogue=("bias",))
    conv("srgan_3x3", (96, 96), (64, 64), (3, 3))
    conv("vgg_3x3", (56, 56), (128, 256), (3, 3))
    conv("resnet50_batch8", (14, 14), (256, 256), (3, 3), batch=8)
    conv("resnet50_1x1_s2", (28, 28), (512, 1024), (1, 1), 2, 0)
    conv("whisper_conv", (1, 3000), (80, 384), (1, 3), epilogue=("bias", "gelu_erf"))
    conv("wav2vec_conv", (1, 1599), (512, 512), (1, 3), [1, 2], 0, epilogue=("bias", "gelu_erf"))
    for name, image, channels, window in (("resnet50_3x3", (14, 14), (256, 256), (3, 3)), ("resnet50_1x1", (28, 28), (128, 512), (1, 1)),
                                          ("mobilenet_1x1", (28, 28), (192, 64), (1, 1)), ("stem_3x3", (112, 112), (3, 32), (3, 3)),
                                          ("inception_1x7", (17, 17), (160, 192), (1, 7)), ("fpn_3x3", (25, 42), (256, 256), (3, 3))):
        conv(name, image, channels, window, dtype="bf16")


def pools():
    for layout in ("NHWC", "NCHW"):
        windows(layout, [("maxpool", 20, 20, 256, 5, 1, 2), ("maxpool", 111, 111, 64, 3, 2, 0), ("avgpool", 56, 56, 128, 2, 2, 0),
                         ("avgpool", 35, 35, 192, 3, 1, 1), ("maxpool", 224, 112, 64, 2, 2, 0), ("maxpool", 75, 133, 48, 3, 2, 1)])
        for n, h, c in ((1, 7, 1280), (4, 28, 72)):
            add(f"gavgpool_{n}x{h}x{h}x{c}_{layout.lower()}", "pool", "gavgpool", {"n": n, "h": h, "w": h, "c": c, "layout": layout})


def products():
    bias, gelu, relu = ("bias",), ("bias", "gelu_erf"), ("bias", "relu")
    gemms([("vit_qkv", 197, 2304, 768, bias), ("vit_ffn", 197, 3072, 768, gelu), ("vit_tiny", 197, 192, 192, bias),
           ("convnext_ffn", 3136, 384, 96, gelu), ("classes_1", 1, 1000, 2048, bias), ("classes_8", 8, 1000, 1280, bias),
           ("gpt2_qkv", 1, 2304, 768, bias), ("gpt2_logits", 1, 50257, 768, ()), ("bert_tiny", 64, 128, 512, bias),
           ("next_sentence", 1, 2, 768, bias), ("dlrm_top", 512, 256, 479, relu), ("lstm_gates", 26, 1024, 256, bias),
           ("llama_up", 7, 2816, 2048, ()), ("phi_ffn", 33, 2560, 640, bias)])
    batched([("swin_scores", 192, 49, 49, 32), ("swin_values", 192, 49, 32, 49), ("vit_scores", 12, 197, 197, 64),
             ("vit_values", 12, 197, 64, 197), ("dlrm_pairs", 256, 27, 27, 64), ("decode_scores", 12, 1, 777, 64),
             ("decode_values", 12, 1, 64, 777)])
    mlps([(1, [784, 256, 10]), (32, [784, 512, 10]), (128, [13, 512, 64]), (16, [4, 64, 2]), (64, [376, 256, 17])])
    attentions([(12, 197, 64), (3, 197, 64), (8, 384, 64), (6, 49, 32), (16, 77, 64), (8, 256, 40), (12, 384, 64), (4, 1000, 32)])


def the_rest():
    for shape in ([197, 768], [3136, 96], [1, 768], [49, 1024], [384, 768], [1500, 384], [1, 4096]):
        rows("norm", "layernorm", [shape], eps=1e-5)
        rows("norm", "rmsnorm", [shape], eps=1e-6)
    rows("norm", "softmax", [[2364, 197], [1, 50257], [12, 777], [9408, 49], [4608, 384], [1, 1000], [8, 1000], [6000, 1500], [2000, 21]])
    maps([([197, 3072], "gelu_erf"), ([384, 3072], "gelu_tanh"), ([1, 11008], "silu"), ([3136, 384], "gelu_erf"), ([12544, 96], "relu"),
          ([1, 1000], "sigmoid"), ([784, 240], "hardswish")])
    rows("elementwise", "mul_add", [[150528], [1, 56, 56, 256], [8, 197, 768], [1000003]])
    transposes([([1, 197, 12, 64], [0, 2, 1, 3]), ([1, 3, 224, 224], [0, 2, 3, 1]), ([1, 224, 224, 3], [0, 3, 1, 2]), ([1, 56, 56, 256], [0, 3, 1, 2]),
                ([768, 3072], [1, 0]), ([50, 1000], [1, 0]), ([8, 384, 12, 64], [0, 2, 1, 3]), ([1, 2048, 7, 7], [0, 2, 3, 1]), ([1, 58, 28, 28], [0, 2, 3, 1])])
    sums([([128, 1000], 1), ([128, 1000], 0), ([197, 768], 0), ([197, 768], 1), ([3136, 96], 0), ([8, 100352], 1), ([4608, 384], 1)])


def other_convolutions():
    silu, bias = ("bias", "silu"), ("bias",)
    conv("effnet_stem", (260, 260), (3, 32), (3, 3), 2, 1, epilogue=silu)
    conv("effnet_dw5s2", (65, 65), (144, 144), (5, 5), 2, 2, 144, epilogue=silu)
    conv("effnet_dw5", (33, 33), (288, 288), (5, 5), groups=288, epilogue=silu)
    conv("effnet_expand", (33, 33), (48, 288), (1, 1), epilogue=silu)
    conv("effnet_project", (17, 17), (720, 120), (1, 1), epilogue=bias)
    conv("effnet_squeeze", (1, 1), (672, 28), (1, 1), epilogue=silu)
    conv("diffusion_320", (32, 32), (320, 320), (3, 3), epilogue=bias)
    conv("diffusion_up", (16, 16), (1280, 320), (3, 3), epilogue=bias)
    conv("yolo8_s2", (192, 320), (16, 32), (3, 3), 2, 1, epilogue=silu)
    conv("yolo8_head", (24, 40), (64, 64), (3, 3), epilogue=silu)
    conv("ocr_1x3", (8, 200), (96, 128), (1, 3))
    conv("ocr_s21", (32, 320), (32, 64), (3, 3), [2, 1], 1)
    conv("tcn_9", (1, 500), (128, 128), (1, 9))
    conv("tcn_dilated", (1, 500), (64, 64), (1, 3), 1, [0, 4], dilation=4)
    conv("audio_stem", (1, 16000), (1, 32), (1, 25), [1, 4], [0, 12])
    conv("pointnet", (1, 1024), (64, 128), (1, 1))
    conv("unet_24", (100, 148), (24, 24), (3, 3))
    conv("road_classes", (65, 129), (128, 19), (1, 1), epilogue=bias)
    conv("aspp_12", (33, 65), (128, 128), (3, 3), dilation=12)
    conv("resnext_8", (28, 28), (256, 256), (3, 3), groups=32)
    conv("regnet_24", (20, 20), (240, 240), (3, 3), groups=10)
    conv("ghost_dw", (56, 56), (36, 36), (3, 3), groups=36, epilogue=bias)
    conv("convnext_dw7_14", (14, 14), (384, 384), (7, 7), groups=384, epilogue=bias)
    conv("conformer_dw31", (1, 400), (256, 256), (1, 31), groups=256, epilogue=silu)
    conv("resnet50_batch4", (28, 28), (128, 128), (3, 3), batch=4)
    conv("vit_patches_14", (224, 224), (3, 384), (14, 14), 14, 0, epilogue=bias)
    conv("lenet_1", (28, 28), (1, 6), (5, 5))
    conv("lenet_2", (14, 14), (6, 16), (5, 5), 1, 0)
    conv("vgg_512", (14, 14), (512, 512), (3, 3))
    conv("swin_merge", (56, 56), (96, 192), (2, 2), 2, 0, epilogue=bias)
    for image, channels, window in (((28, 28), (96, 160), (3, 3)), ((57, 101), (32, 48), (3, 3)), ((14, 14), (512, 128), (1, 1)), ((1, 750), (256, 256), (1, 5))):
        conv(f"bf16_{channels[0]}_{channels[1]}", image, channels, window, dtype="bf16")


def others():
    other_convolutions()
    for layout in ("NHWC", "NCHW"):
        windows(layout, [("maxpool", 80, 144, 96, 2, 2, 0), ("maxpool", 13, 13, 512, 3, 1, 1), ("avgpool", 17, 17, 768, 3, 1, 1),
                         ("maxpool", 147, 147, 64, 3, 2, 0), ("avgpool", 14, 14, 256, 2, 2, 0), ("maxpool", 20, 32, 256, 5, 1, 2)])
        for h, c in ((10, 1536), (65, 24)):
            add(f"gavgpool_{h}x{h}x{c}_{layout.lower()}", "pool", "gavgpool", {"n": 1, "h": h, "w": h, "c": c, "layout": layout})
    bias, gelu, relu = ("bias",), ("bias", "gelu_erf"), ("bias", "relu")
    gemms([("t5_ffn", 37, 2048, 512, relu), ("classes_21841", 1, 21841, 1024, bias), ("swin_qkv", 784, 576, 192, bias),
           ("swin_ffn", 784, 768, 192, gelu), ("whisper_ffn", 211, 1536, 384, gelu), ("llama_down_1", 1, 2048, 5632, ()),
           ("llama_down_4", 4, 2048, 5632, ()), ("rnn_gates", 5, 768, 256, bias), ("ncf", 256, 64, 128, relu),
           ("lenet_classes", 1, 10, 84, bias), ("decode_11", 11, 1024, 1024, bias), ("vit_large", 65, 1024, 1024, bias),
           ("bert_small", 211, 512, 512, bias), ("deepfm", 1000, 400, 351, relu), ("lora_down", 512, 16, 1024, ()),
           ("lora_up", 512, 1024, 16, ())])
    batched([("scores_40", 8, 211, 211, 40), ("values_40", 8, 211, 40, 211), ("decode_scores_300", 32, 1, 300, 64),
             ("decode_values_300", 32, 1, 64, 300), ("window_24", 64, 64, 64, 24), ("text_96", 16, 77, 77, 96), ("cross_40", 8, 1024, 77, 40)])
    attentions([(8, 77, 40), (12, 37, 64), (8, 1024, 40), (6, 211, 64), (20, 100, 64), (4, 500, 24), (2, 64, 128), (32, 16, 128), (3, 196, 64), (16, 333, 80)])
    mlps([(1, [128, 64, 32]), (7, [1024, 1024, 100]), (500, [40, 128, 3]), (64, [784, 512, 10])])
    rows("norm", "layernorm", ([784, 192], [65, 1024], [37, 512], [211, 384], [1, 4096], [4096, 320], [1024, 640], [12544, 96], [20000, 256], [16, 5000]), eps=1e-5)
    rows("norm", "rmsnorm", ([37, 512], [1, 2048], [211, 2048], [1000, 5120], [7, 11008]), eps=1e-6)
    rows("norm", "softmax", ([1, 21841], [64, 1000], [8192, 77], [3072, 211], [960, 37], [8385, 19], [2000, 2000], [30000, 100], [128, 30522]))
    rows("elementwise", "mul_add", ([1, 320, 32, 32], [999, 1001], [16, 512, 28, 28], [12345]))
    maps([([784, 768], "gelu_erf"), ([37, 2048], "relu"), ([211, 1536], "gelu_tanh"), ([1089, 288], "silu"), ([16641, 64], "hardswish"),
          ([1000, 4000], "sigmoid"), ([4096, 1280], "gelu_erf"), ([50000, 96], "relu"), ([333, 333], "tanh")])
    transposes([([1, 77, 8, 40], [0, 2, 1, 3]), ([4, 64, 56, 56], [0, 2, 3, 1]), ([1, 65, 129, 19], [0, 3, 1, 2]), ([1, 320, 32, 32], [0, 2, 3, 1]),
                ([1, 32, 32, 320], [0, 3, 1, 2]), ([784, 192], [1, 0]), ([1, 3, 640, 384], [0, 2, 3, 1]), ([21841, 128], [1, 0]),
                ([2, 211, 16, 64], [0, 2, 1, 3]), ([500, 64, 5], [1, 0, 2])])
    sums([([784, 192], 0), ([784, 192], 1), ([1024, 640], 0), ([30000, 100], 1), ([100, 30000], 0), ([64, 21841], 1), ([5, 4096], 0)])


def third_convolutions():
    silu, bias, plain = ("bias", "silu"), ("bias",), ("bias", "relu")
    conv("mobilenet1_quarter", (96, 96), (8, 16), (1, 1))
    conv("mobilenet1_grey", (96, 96), (1, 8), (3, 3), 2, 1)
    conv("blazeface_dw5", (64, 64), (24, 24), (5, 5), groups=24, epilogue=bias)
    conv("mtcnn_1", (360, 640), (3, 10), (3, 3), 1, 0, epilogue=bias)
    conv("mtcnn_3", (178, 318), (16, 32), (3, 3), 1, 0, epilogue=bias)
    conv("srcnn_9x9", (128, 128), (1, 64), (9, 9))
    conv("srcnn_last", (128, 128), (32, 1), (5, 5), epilogue=bias)
    conv("fsrcnn_12", (90, 160), (12, 12), (3, 3), epilogue=bias)
    conv("pix2pix_4x4s2", (64, 64), (64, 128), (4, 4), 2, 1, epilogue=bias)
    conv("patchgan_4x4", (32, 32), (256, 512), (4, 4), 1, 1, epilogue=bias)
    conv("style_512_4", (4, 4), (512, 512), (3, 3), epilogue=bias)
    conv("style_64_128", (128, 128), (64, 32), (3, 3), epilogue=bias)
    conv("flow_7x7s2", (192, 256), (6, 64), (7, 7), 2, 3)
    conv("flow_5x5s2", (96, 128), (64, 128), (5, 5), 2, 2)
    conv("raft_1x5", (46, 62), (256, 128), (1, 5), epilogue=("bias", "sigmoid"))
    conv("raft_5x1", (46, 62), (256, 128), (5, 1), epilogue=("bias", "tanh"))
    conv("raft_corr", (46, 62), (324, 256), (1, 1))
    conv("hrnet_18", (56, 56), (18, 18), (3, 3))
    conv("hrnet_36_s2", (56, 56), (18, 36), (3, 3), 2, 1)
    conv("hrnet_144", (7, 7), (144, 144), (3, 3))
    conv("bifpn_88_dw", (48, 48), (88, 88), (3, 3), groups=88, epilogue=())
    conv("bifpn_88_1x1", (24, 24), (88, 88), (1, 1), epilogue=bias)
    conv("effdet_classes", (12, 12), (88, 810), (1, 1), epilogue=bias)
    conv("effnetv2_fused", (96, 96), (24, 96), (3, 3), 2, 1, epilogue=silu)
    conv("mnasnet_dw5_s2", (14, 14), (480, 480), (5, 5), 2, 2, 480)
    conv("regnet_56", (14, 14), (448, 448), (3, 3), groups=8)
    conv("regnet_16_s2", (56, 56), (64, 64), (3, 3), 2, 1, groups=4)
    conv("shuffle_g3", (28, 28), (240, 60), (1, 1), groups=3)
    conv("convmixer_9", (32, 32), (256, 256), (9, 9), groups=256, epilogue=("bias", "gelu_erf"))
    conv("replk_31", (14, 14), (512, 512), (31, 31), groups=512, epilogue=bias)
    conv("replk_13", (28, 28), (128, 128), (13, 13), groups=128, epilogue=bias)
    conv("mobilevit_96", (16, 16), (96, 96), (3, 3), epilogue=silu)
    conv("levit_stem", (112, 112), (16, 32), (3, 3), 2, 1, epilogue=("bias", "hardswish"))
    conv("segformer_7s4", (256, 256), (3, 32), (7, 7), 4, 3, epilogue=bias)
    conv("segformer_sr8", (64, 64), (32, 32), (8, 8), 8, 0, epilogue=bias)
    conv("pvt_dw", (32, 32), (512, 512), (3, 3), groups=512, epilogue=("bias", "gelu_erf"))
    conv("pspnet_1", (1, 1), (2048, 512), (1, 1))
    conv("pspnet_6", (6, 6), (2048, 512), (1, 1))
    conv("wavenet_2", (1, 4000), (64, 128), (1, 2), 1, [0, 0], dilation=8, epilogue=bias)
    conv("tasnet_dw", (1, 3199), (512, 512), (1, 3), 1, [0, 4], groups=512, dilation=4, epilogue=bias)
    conv("tasnet_encoder", (1, 32000), (1, 512), (1, 16), [1, 8], 0)
    conv("tacotron_5", (1, 180), (512, 512), (1, 5), epilogue=("bias", "tanh"))
    conv("hifigan_11", (1, 2048), (64, 64), (1, 11), 1, [0, 15], dilation=3, epilogue=bias)
    conv("mamba_4", (1, 515), (1536, 1536), (1, 4), 1, 0, groups=1536, epilogue=silu)
    conv("eegnet_1x64", (22, 257), (1, 8), (1, 64), 1, 0, epilogue=bias)
    conv("eegnet_22x1", (22, 194), (8, 16), (22, 1), 1, 0, groups=8, epilogue=bias)
    conv("sincnet_251", (1, 3200), (1, 80), (1, 251), 1, 0, epilogue=bias)
    conv("jasper_87", (1, 400), (256, 256), (1, 87), 1, [0, 86], dilation=2)
    conv("quartz_dw33", (1, 800), (256, 256), (1, 33), groups=256, epilogue=())
    conv("east_7x7", (128, 96), (32, 2), (7, 7), epilogue=("bias", "sigmoid"))
    conv("ocr_3x1s2", (16, 80), (128, 128), (3, 1), [2, 1], [1, 0])
    conv("lidar_s12", (64, 512), (32, 64), (3, 3), [1, 2], 1)
    conv("lidar_5", (64, 1024), (5, 32), (3, 3), [1, 2], 1)
    conv("alphago_19", (19, 19), (192, 192), (3, 3))
    conv("alphago_17", (19, 19), (17, 256), (3, 3))
    conv("atari_8x8", (84, 84), (4, 32), (8, 8), 4, 0)
    conv("atari_4x4", (20, 20), (32, 64), (4, 4), 2, 0)
    conv("cifar_16", (32, 32), (16, 16), (3, 3), batch=16)
    conv("cifar_64_b32", (8, 8), (64, 64), (3, 3), batch=32)
    conv("sensors_6", (1, 128), (9, 64), (1, 6), 1, 0, batch=8)
    conv("upsample_odd", (45, 79), (50, 30), (3, 3), epilogue=plain)
    for image, channels, window, stride in (((17, 31), (40, 72), (3, 3), 1), ((112, 112), (24, 24), (1, 1), 1), ((1, 1500), (384, 384), (1, 3), [1, 2]),
                                            ((19, 19), (192, 192), (3, 3), 1), ((56, 56), (18, 36), (3, 3), 2), ((6, 6), (2048, 512), (1, 1), 1)):
        conv(f"bf16_third_{channels[0]}_{channels[1]}", image, channels, window, stride, dtype="bf16")


def third():
    third_convolutions()
    for layout in ("NHWC", "NCHW"):
        windows(layout, [("maxpool", 55, 55, 96, 3, 2, 0), ("maxpool", 32, 320, 64, 2, [2, 1], 0), ("avgpool", 8, 8, 512, 8, 8, 0),
                         ("maxpool", 19, 19, 512, 3, 1, 1), ("maxpool", 26, 26, 256, 13, 1, 6), ("avgpool", 28, 28, 64, 3, 2, 1),
                         ("avgpool", 60, 60, 128, 10, 10, 0), ("maxpool", 1, 1000, 40, [1, 4], [1, 4], 0), ("avgpool", 48, 48, 64, 3, 1, 1)])
        for n, h, w, c in ((1, 7, 7, 2048), (1, 12, 12, 320), (32, 8, 8, 64), (1, 1, 200, 512), (8, 7, 7, 512), (1, 112, 112, 32)):
            add(f"gavgpool_{n}x{h}x{w}x{c}_{layout.lower()}", "pool", "gavgpool", {"n": n, "h": h, "w": w, "c": c, "layout": layout})
    bias, gelu, relu = ("bias",), ("bias", "gelu_erf"), ("bias", "relu")
    gemms([("minilm_ffn", 48, 1536, 384, gelu), ("albert_embed", 128, 768, 128, bias), ("mixer_tokens", 196, 384, 512, gelu),
           ("gru_gates", 1, 1536, 512, bias), ("speaker", 3, 512, 1536, bias), ("faces_10575", 1, 10575, 512, ()),
           ("wide_deep", 2048, 256, 39, relu), ("deep_last", 2048, 1, 64, bias), ("experts", 6, 1408, 2048, ("bias", "silu")),
           ("queries_100", 100, 256, 256, bias), ("boxes_900", 900, 91, 256, bias), ("gcn_2708", 2708, 16, 1433, ()),
           ("gcn_out", 2708, 7, 16, ()), ("tabular", 333, 100, 23, relu), ("decode_2", 2, 3072, 1024, bias), ("prompt_77", 77, 3072, 768, gelu),
           ("time_embed", 2, 1280, 320, ("bias", "silu")), ("pca_49", 1000, 49, 784, ())])
    batched([("gqa_scores", 8, 4, 1500, 128), ("gqa_values", 8, 4, 128, 1500), ("boxes_3x3", 500, 3, 3, 3), ("rotate_8", 1000, 8, 8, 8),
             ("corr_1", 1, 1280, 1280, 64), ("linear_kv", 16, 32, 32, 1024), ("capsules", 10, 1152, 16, 8), ("din_33", 64, 33, 10, 36)])
    attentions([(12, 48, 32), (4, 65, 16), (2, 300, 20), (8, 100, 32), (1, 1024, 256), (12, 7, 64), (16, 50, 96), (4, 256, 36), (8, 1, 64), (24, 154, 64), (6, 1369, 64)])
    mlps([(1, [9, 32, 1]), (4096, [3, 64, 3]), (256, [117, 400, 64]), (16, [512, 2048, 512])])
    rows("norm", "layernorm", ([48, 384], [900, 256], [2, 1280], [16384, 32], [1369, 384], [300, 20], [5000, 1000], [100, 100]), eps=1e-5)
    rows("norm", "rmsnorm", ([1, 5120], [77, 768], [300, 4096], [4000, 128], [12000, 80]), eps=1e-6)
    rows("norm", "softmax", ([32, 1500], [1, 10575], [1200, 100], [260, 65], [100000, 10], [500, 3], [16384, 16], [77, 49408], [1, 81]))
    rows("elementwise", "mul_add", ([1, 88, 48, 48], [77, 77], [3, 1000, 1000], [31], [8, 65536]))
    maps([([196, 384], "gelu_erf"), ([2304, 88], "silu"), ([1, 4096], "relu"), ([20000, 19], "sigmoid"), ([3000, 80], "gelu_tanh"),
          ([100000, 24], "hardswish"), ([512, 512], "tanh"), ([77, 3072], "gelu_erf"), ([1500, 1536], "gelu_erf"), ([6000, 1000], "relu")])
    transposes([([196, 512], [1, 0]), ([1, 48, 12, 32], [0, 2, 1, 3]), ([1, 2, 116, 28, 28], [0, 2, 1, 3, 4]), ([8, 8, 7, 7, 96], [0, 2, 1, 3, 4]),
                ([1500, 80], [1, 0]), ([12, 100, 64], [0, 2, 1]), ([64, 3, 32, 32], [0, 2, 3, 1]), ([49, 9, 30], [2, 0, 1]), ([1, 240, 320, 21], [0, 3, 1, 2]),
                ([1024, 1000], [1, 0]), ([5000, 3], [1, 0]), ([1, 19, 64, 128], [0, 2, 3, 1])], named=True)
    sums([([48, 384], 0), ([2048, 39], 1), ([2048, 39], 0), ([100000, 10], 0), ([49, 2048], 0), ([900, 256], 0), ([1, 65536], 1), ([512, 512], 0), ([300, 77777], 1)])


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = options.add_mutually_exclusive_group()
    which.add_argument("--others", action="store_true", help="the second list")
    which.add_argument("--third", action="store_true", help="the third list")
    chosen = options.parse_args()
    if chosen.others:
        others()
    elif chosen.third:
        third()
    else:
        convolutions(), pools(), products(), the_rest()
    print('{"notes": "bench/shapes/models.py", "workloads": [')
    print(",\n".join(map(json.dumps, entries)) + "\n]}")
