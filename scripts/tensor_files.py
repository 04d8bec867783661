"""NumPy's .npy files and safetensors files, as far as the scripts need them. Needs only Python's
standard library."""
import array
import json
import struct


def write_npy(path, shape, numbers):
    """int64 numbers, in row-major order."""
    header = repr({"descr": "<i8", "fortran_order": False, "shape": tuple(shape)})
    header = header.ljust(-(-(len(header) + 11) // 64) * 64 - 11) + "\n"  # magic, version, length: 10 bytes
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        array.array("q", numbers).tofile(file)


def read_floats(path):
    """The float32 tensors of a safetensors file: {name: (shape, array of floats)}."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        start = 8 + length
        tensors = {}
        for name, entry in header.items():
            if entry.get("dtype") != "F32":
                continue
            first, last = entry["data_offsets"]
            file.seek(start + first)
            numbers = array.array("f")
            numbers.fromfile(file, (last - first) // 4)
            tensors[name] = (entry["shape"], numbers)
    return tensors


def write_floats(path, tensors):
    header, offset = {}, 0
    for name, (shape, numbers) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * len(numbers)]}
        offset += 4 * len(numbers)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, numbers in tensors.values():
            numbers.tofile(file)
