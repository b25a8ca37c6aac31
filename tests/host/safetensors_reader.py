"""An independent reader of the safetensors format, written only from its published description.

    python3 safetensors_reader.py FILE    prints a line per tensor: name dtype [shape] crc32 of its bytes
"""
import json
import struct
import sys
import zlib

WIDTH = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "I8": 1, "BOOL": 1}


def read(path):
    """{name: (dtype, shape, bytes)}, and the metadata."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    data = raw[8 + length :]
    assert (8 + length) % 8 == 0, "data does not begin at a multiple of 8"
    tensors, used = {}, 0
    metadata = header.pop("__metadata__", {})
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        elements = 1
        for extent in entry["shape"]:
            elements *= extent
        width = WIDTH[entry["dtype"]]
        assert end - begin == elements * width, name
        assert begin % width == 0, f"{name} is not aligned"
        used += end - begin
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    assert used == len(data), "bytes that belong to no tensor"
    return tensors, metadata


if __name__ == "__main__":
    tensors, metadata = read(sys.argv[1])
    print(json.dumps(metadata, sort_keys=True))
    for name, (dtype, shape, data) in sorted(tensors.items()):
        print(name, dtype, shape, f"{zlib.crc32(data):08x}")
