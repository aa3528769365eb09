#!/usr/bin/env python3
"""Layers of well-known models:  models.py > layers.json

Where draw.py draws what layers look like, this lists what they are: two hundred layers of image, speech, language and recommendation models,
convolutions and pooling in both layouts. The document has the form of tests/data/workloads.json."""
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
        for op, h, w, c, r, stride, pad in (("maxpool", 20, 20, 256, 5, 1, 2), ("maxpool", 111, 111, 64, 3, 2, 0), ("avgpool", 56, 56, 128, 2, 2, 0),
                                            ("avgpool", 35, 35, 192, 3, 1, 1), ("maxpool", 224, 112, 64, 2, 2, 0), ("maxpool", 75, 133, 48, 3, 2, 1)):
            p = {"n": 1, "h": h, "w": w, "c": c, "r": r, "s": r, "stride": stride, "pad": pad, "layout": layout}
            add(f"{op}_{r}x{r}_{h}x{w}x{c}_{layout.lower()}", "pool", op, p)
        for n, h, c in ((1, 7, 1280), (4, 28, 72)):
            add(f"gavgpool_{n}x{h}x{h}x{c}_{layout.lower()}", "pool", "gavgpool", {"n": n, "h": h, "w": h, "c": c, "layout": layout})


def products():
    bias, gelu, relu = ("bias",), ("bias", "gelu_erf"), ("bias", "relu")
    for dtype, out in (("f32", {}), ("bf16", {"out": "bf16"}), ("s8", {"out": "s32"})):
        for name, m, n, k, epilogue in (("vit_qkv", 197, 2304, 768, bias), ("vit_ffn", 197, 3072, 768, gelu), ("vit_tiny", 197, 192, 192, bias),
                                        ("convnext_ffn", 3136, 384, 96, gelu), ("classes_1", 1, 1000, 2048, bias), ("classes_8", 8, 1000, 1280, bias),
                                        ("gpt2_qkv", 1, 2304, 768, bias), ("gpt2_logits", 1, 50257, 768, ()), ("bert_tiny", 64, 128, 512, bias),
                                        ("next_sentence", 1, 2, 768, bias), ("dlrm_top", 512, 256, 479, relu), ("lstm_gates", 26, 1024, 256, bias),
                                        ("llama_up", 7, 2816, 2048, ()), ("phi_ffn", 33, 2560, 640, bias)):
            add(f"{name}_{dtype}", f"gemm_{dtype}", "matmul", {"m": m, "n": n, "k": k} | out, epilogue if dtype != "s8" else (), dtype)
    for name, batch, m, n, k in (("swin_scores", 192, 49, 49, 32), ("swin_values", 192, 49, 32, 49), ("vit_scores", 12, 197, 197, 64),
                                 ("vit_values", 12, 197, 64, 197), ("dlrm_pairs", 256, 27, 27, 64), ("decode_scores", 12, 1, 777, 64),
                                 ("decode_values", 12, 1, 64, 777)):
        add(name, "gemm_f32", "matmul", {"m": m, "n": n, "k": k, "batch": batch})
    for batch, dims in ((1, [784, 256, 10]), (32, [784, 512, 10]), (128, [13, 512, 64]), (16, [4, 64, 2]), (64, [376, 256, 17])):
        add(f"mlp_{batch}_" + "_".join(map(str, dims)), "mlp", "mlp", {"batch": batch, "dims": dims})
    for heads, seq, dim in ((12, 197, 64), (3, 197, 64), (8, 384, 64), (6, 49, 32), (16, 77, 64), (8, 256, 40), (12, 384, 64), (4, 1000, 32)):
        add(f"attention_{heads}_{seq}_{dim}", "attention", "attention", {"heads": heads, "seq": seq, "dim": dim, "scale": dim ** -0.5})


def the_rest():
    def name(op, shape):
        return f"{op}_" + "x".join(map(str, shape))

    for shape in ([197, 768], [3136, 96], [1, 768], [49, 1024], [384, 768], [1500, 384], [1, 4096]):
        add(name("layernorm", shape), "norm", "layernorm", {"shape": shape, "eps": 1e-5})
        add(name("rmsnorm", shape), "norm", "rmsnorm", {"shape": shape, "eps": 1e-6})
    for shape in ([2364, 197], [1, 50257], [12, 777], [9408, 49], [4608, 384], [1, 1000], [8, 1000], [6000, 1500], [2000, 21]):
        add(name("softmax", shape), "norm", "softmax", {"shape": shape})
    for shape, function in (([197, 3072], "gelu_erf"), ([384, 3072], "gelu_tanh"), ([1, 11008], "silu"), ([3136, 384], "gelu_erf"), ([12544, 96], "relu"),
                            ([1, 1000], "sigmoid"), ([784, 240], "hardswish")):
        add(name(function, shape), "elementwise", "bias_act", {"shape": shape}, ("bias", function))
    for shape in ([150528], [1, 56, 56, 256], [8, 197, 768], [1000003]):
        add(name("mul_add", shape), "elementwise", "mul_add", {"shape": shape})
    for shape, perm in (([1, 197, 12, 64], [0, 2, 1, 3]), ([1, 3, 224, 224], [0, 2, 3, 1]), ([1, 224, 224, 3], [0, 3, 1, 2]), ([1, 56, 56, 256], [0, 3, 1, 2]),
                        ([768, 3072], [1, 0]), ([50, 1000], [1, 0]), ([8, 384, 12, 64], [0, 2, 1, 3]), ([1, 2048, 7, 7], [0, 2, 3, 1]), ([1, 58, 28, 28], [0, 2, 3, 1])):
        add(name("transpose", shape), "transpose", "transpose", {"shape": shape, "perm": perm})
    for shape, axis in (([128, 1000], 1), ([128, 1000], 0), ([197, 768], 0), ([197, 768], 1), ([3136, 96], 0), ([8, 100352], 1), ([4608, 384], 1)):
        add(name("sum", shape) + f"_{axis}", "reduction", "reduce_sum", {"shape": shape, "axis": axis})


if __name__ == "__main__":
    convolutions(), pools(), products(), the_rest()
    print('{"notes": "bench/shapes/models.py", "workloads": [')
    print(",\n".join(map(json.dumps, entries)) + "\n]}")
