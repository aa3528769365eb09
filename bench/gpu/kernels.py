"""Kernels that `rgen-regret --prepare` compiled elsewhere: cubins and manifests, launched through the driver's API on PyTorch's memory and streams."""
import ctypes
import functools

_MAX_DYNAMIC_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_EAGER_SHARED_BYTES = 48 << 10  # more must be asked for


@functools.cache
def _driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    pointer, count = ctypes.c_void_p, ctypes.c_uint
    cuda.cuModuleLoadData.argtypes = [ctypes.POINTER(pointer), ctypes.c_char_p]
    cuda.cuModuleGetFunction.argtypes = [ctypes.POINTER(pointer), pointer, ctypes.c_char_p]
    cuda.cuModuleUnload.argtypes = [pointer]
    cuda.cuFuncSetAttribute.argtypes = [pointer, ctypes.c_int, ctypes.c_int]
    cuda.cuLaunchKernel.argtypes = [pointer] + [count] * 7 + [pointer, ctypes.POINTER(pointer), pointer]
    cuda.cuTensorMapEncodeTiled.argtypes = [pointer, ctypes.c_int, count, pointer, pointer, pointer, pointer, pointer] + [ctypes.c_int] * 4
    cuda.cuTensorMapEncodeIm2col.argtypes = ([pointer, ctypes.c_int, count, pointer, pointer, pointer, pointer, pointer, count, count, pointer]
                                             + [ctypes.c_int] * 4)
    cuda.cuGetErrorString.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    return cuda


def _check(result, call):
    if result:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"{call}: {(text.value or b'?').decode()} ({result})")


_MAP_TYPES = {"u8": 0, "s8": 0, "f16": 6, "bf16": 9, "f32": 7, "tf32": 11, "s32": 3}
_ELEMENT_BYTES = {"u8": 1, "s8": 1, "f16": 2, "bf16": 2, "f32": 4, "tf32": 4, "s32": 4}
_SWIZZLE_128, _L2_256 = 3, 3


def _tensor_map(tma, address):
    """The 128 bytes of a CUtensorMap, at a multiple of 64."""
    numbers = lambda kind, values: (kind * len(values))(*values)
    size = _ELEMENT_BYTES[tma["dtype"]]
    memory = ctypes.create_string_buffer(192)
    at = -ctypes.addressof(memory) % 64
    place = ctypes.c_void_p(ctypes.addressof(memory) + at)
    rank = len(tma["extents"])
    start = (place, _MAP_TYPES[tma["dtype"]], rank, address + tma["offset"] * size, numbers(ctypes.c_uint64, tma["extents"]),
             numbers(ctypes.c_uint64, [s * size for s in tma["strides"][1:]]))
    if "lower" in tma:
        _check(_driver().cuTensorMapEncodeIm2col(
            *start, numbers(ctypes.c_int, tma["lower"]), numbers(ctypes.c_int, tma["upper"]), *tma["box"],
            numbers(ctypes.c_uint32, [1, *tma["steps"], 1]), 0, _SWIZZLE_128, _L2_256, 0), "cuTensorMapEncodeIm2col")
    else:
        _check(_driver().cuTensorMapEncodeTiled(*start, numbers(ctypes.c_uint32, tma["box"]), numbers(ctypes.c_uint32, [1] * rank), 0,
                                                _SWIZZLE_128, _L2_256, 0), "cuTensorMapEncodeTiled")
    return memory, place.value


class _Launch:
    def __init__(self, module, launch, address_of):
        self.function = ctypes.c_void_p()
        _check(_driver().cuModuleGetFunction(ctypes.byref(self.function), module, launch["symbol"].encode()), launch["symbol"])
        if launch["shared_bytes"] > _EAGER_SHARED_BYTES:
            _check(_driver().cuFuncSetAttribute(self.function, _MAX_DYNAMIC_SHARED_BYTES, launch["shared_bytes"]), launch["symbol"])
        self.shape = (*launch["grid"], *launch["block"], launch["shared_bytes"])
        self.values, places = [], []
        for a in launch["args"]:
            if "tma" in a:
                memory, place = _tensor_map(a["tma"], address_of(a["tma"]))
            else:
                memory = ctypes.c_void_p(address_of(a))
                place = ctypes.addressof(memory)
            self.values.append(memory)
            places.append(place)
        self.arguments = (ctypes.c_void_p * len(places))(*places)

    def __call__(self, stream):
        _check(_driver().cuLaunchKernel(self.function, *self.shape, stream, self.arguments, None), "cuLaunchKernel")


class Kernel:
    """A kernel ready to be launched. `tensors`: the inputs by name; `outputs` are its own, NaN until the first launch."""

    def __init__(self, torch, manifest, image, tensors):
        self.torch, self.module = torch, ctypes.c_void_p()
        _check(_driver().cuModuleLoadData(ctypes.byref(self.module), image), "cuModuleLoadData")
        types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "s8": torch.int8, "u8": torch.uint8, "s32": torch.int32}
        self.outputs = {o["name"]: torch.empty(o["shape"], dtype=types[o["dtype"]], device="cuda") for o in manifest["outputs"]}
        poisoned = lambda size: torch.full([max(size, 16)], 0xff, dtype=torch.uint8, device="cuda")
        for o in self.outputs.values():
            o.view(-1).view(torch.uint8).fill_(0xff)
        self.workspace = poisoned(manifest["workspace_bytes"])
        self.memory = {name: t.data_ptr() for name, t in (tensors | self.outputs).items()}
        self.packed = []
        for p in manifest["prepack"]:
            self.packed.append(poisoned(p["bytes"]))
            places = {"src": tensors[p["input"]].data_ptr(), "dst": self.packed[-1].data_ptr()}
            _Launch(self.module, p["launch"], lambda a: places[next(iter(a))])(self._stream())
            self.memory[p["input"]] = places["dst"]
        address = lambda a: self.memory[a["tensor"]] if "tensor" in a else self.workspace.data_ptr() + a["workspace"]
        self.launches = [_Launch(self.module, l, address) for l in manifest["launch"]]
        torch.cuda.synchronize()

    def _stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def __call__(self):
        stream = self._stream()
        for launch in self.launches:
            launch(stream)

    def close(self):
        self.torch.cuda.synchronize()
        _driver().cuModuleUnload(self.module)
