"""Figure 9 measured: a small network trained on this machine's cores, on images in memory and on JPEG files that actors read and decode."""
import json
import os
import random
import statistics

from .. import draw
from ..figure import Figure, Result, Row
from ..program import ask

IMAGES, CLASSES, BATCH, STEPS, WARM = 256, 8, 32, 24, 8
NET = ("--model=resnet50", "--image=64", "--channels=16", f"--classes={CLASSES}", "--optimizer=momentum", f"--micro-batch={BATCH}",
       f"--global-batch={BATCH}", f"--steps={STEPS}", "--json")
SIZES = ((500, 375), (375, 500), (500, 333))  # as most images of ImageNet


def write_images(folder):
    """JPEG files of clouds in a folder for each class; True if Pillow is installed to write them."""
    try:
        from PIL import Image
    except ImportError:
        return False
    draws = random.Random(1)
    for number in range(IMAGES):
        width, height = SIZES[number % len(SIZES)]
        within = folder / f"class{number % CLASSES}"
        within.mkdir(parents=True, exist_ok=True)
        cloud = Image.frombytes("RGB", (width // 8, height // 8), draws.randbytes(width // 8 * (height // 8) * 3))
        cloud.resize((width, height), Image.Resampling.BICUBIC).save(within / f"{number}.jpg", quality=90)
    return True


def rate(command):
    """Images a second: a batch over the median step, without the first ones."""
    answer = ask(*command)
    answer.expect_done()
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return BATCH / statistics.median(line["step_time_s"] for line in lines if line["event"] == "step" and line["step"] > WARM)


def figure9_jpeg(folder):
    data = folder / "fig9-jpeg"
    there = write_images(data)
    source = f"--data={os.path.relpath(data)}"
    runs = {"images that are there": ("--data=random",)}
    for slots in (1, 2, 4):
        runs[f"JPEG files, one decoder, {slots} slots"] = (source, f"--prefetch={slots}")
    runs["JPEG files, two decoders, 2 slots"] = (source, "--prefetch=2", "--decoders=2")
    rows = []
    for name, flags in runs.items():
        command = ("train", *NET, *flags)
        if there or flags[0] != source:
            rows.append(Row(name, "images/s", None, rate(command), command=command))
        else:
            rows.append(Row(name, "images/s", None, None, "Pillow is not installed (Debian: python3-pil)"))

    def picture(sheet):
        axis = draw.panels(sheet, ["ResNet-50 of a quarter of the channels, 64 x 64, on this machine"], 1, 6)[0]
        known = [row for row in rows if row.ours is not None]
        for i, row in enumerate(known):
            colour, hatch, _ = draw.look(i)
            axis.barh(i, row.ours, 0.6, color=colour, hatch=hatch, edgecolor="#333333", alpha=0.45)
        axis.set_yticks(range(len(known)), [row.name for row in known])
        axis.invert_yaxis()
        axis.set_xlabel("images/s")

    return Result(rows, picture)


FIGURES = [
    Figure("fig9jpeg", "loading JPEG files as actors: measured on this machine", figure9_jpeg, measured=True,
           missing=("disks: the files have been read before, so they come from memory",)),
]
