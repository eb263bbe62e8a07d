"""Take the pictures of a pipeline's page for the documentation, in a headless Chromium.

Usage: python tools/page_pictures.py [--folder docs/_static/page] [--browser PATH]

The pipeline is real, and so are its elements; its statistics are given, so that the pictures show a
typical training run with workers, whichever machine takes them.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

import grain
from grain.observe.page.presentation import visualize
from grain.observe.statistics import (
    NodeStatistics,
    PipelineStatistics,
    QueueStatistics,
    Span,
    WaitStatistics,
    WorkerStatistics,
)

ROOT = pathlib.Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
)
DARK = "--blink-settings=preferredColorScheme=0"
# Name, width, height and flags of each picture; the empty part at the bottom is cut off.
PICTURES = (
    ("light", 1200, 2200, ()),
    ("dark", 1200, 2200, (DARK,)),
    ("phone", 390, 880, ()),
)


def find_browser() -> str | None:
    """Return the path of an installed Chromium."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def flags(folder: str) -> list[str]:
    """Return the flags of a browser that keeps its data in a folder of its own."""
    return [*FLAGS, f"--user-data-dir={folder}"]


def photo(number: int) -> dict[str, object]:
    """Return a landscape of its own for each number: sky, hills and a sun."""
    random = np.random.default_rng(int(number))
    height, width = 96, 128
    y, x = np.mgrid[:height, :width].astype(np.float32)
    top, low = random.uniform(0.35, 0.9, (2, 3)) * 255
    sky = top + (low - top) * (y / height)[..., None]
    sun_x, sun_y = random.uniform(20, width - 20), random.uniform(15, 45)
    glow = np.exp(-np.hypot(x - sun_x, y - sun_y) / random.uniform(8, 20))[..., None]
    image = sky + glow * np.array([120.0, 90.0, 30.0])
    for depth in range(3):
        phase, wave = random.uniform(0, 6), random.uniform(14, 34)
        ridge = 50 + 14 * depth + 9 * np.sin(x / wave + phase) + 4 * np.sin(x / 7 + 2 * phase)
        shade = random.uniform(0.2, 0.55, 3) * 255 * (0.9 - 0.22 * depth)
        image = np.where((y > ridge)[..., None], shade, image)
    labels = ("coast", "valley", "ridge", "plain")
    return {"image": np.clip(image, 0, 255).astype(np.uint8), "label": labels[int(number) % 4]}


def crop(element: dict[str, object]) -> dict[str, object]:
    """Return the middle of an image."""
    return element | {"image": element["image"][8:88, 24:104]}


def is_bright(element: dict[str, object]) -> bool:
    """Return whether an image is not dark."""
    return bool(np.mean(element["image"]) > 70)


def pipeline() -> grain.IterDataset:
    """Return the pipeline of the pictures: two sources that are mixed, decoded and batched."""
    photos = grain.MapDataset.range(50_000).shuffle(seed=1).map(photo)
    extra = grain.MapDataset.range(8_000).map(photo)
    mixed = grain.MapDataset.mix({"photos": photos, "extra": extra}, {"photos": 3, "extra": 1})
    ds = mixed.map(crop).to_iter_dataset().filter(is_bright).batch(32)
    return ds.mp_prefetch(num_workers=2)


def statistics(page_nodes: object) -> PipelineStatistics:
    """Return the statistics of a run with two workers that decode images."""
    seconds = {"map(photo)": 7.4, "map(crop)": 0.9, "filter(is_bright)": 0.7, "batch(32)": 0.4}
    nodes = []
    for node in page_nodes:
        name = node.name
        base = next((value for key, value in seconds.items() if name == key), 0.12)
        extra = name == "map(photo)" and node.id < 3
        batches = name.startswith(("batch", "mp_prefetch"))
        elements = 1_600 if node.id < 2 else 4_800 if node.id < 5 else 6_400
        elements = 5_120 if name.startswith("filter") else 160 if batches else elements
        nodes.append(
            NodeStatistics(
                id=node.id,
                operation=name.partition("(")[0],
                name=name,
                function="photo" if name == "map(photo)" else None,
                parents=node.parents,
                location="consumer" if batches else "workers",
                elements_in=6_400 if name.startswith("filter") else elements,
                elements_out=elements,
                dropped=1_280 if name.startswith("filter") else 0,
                bytes_out=0 if name.startswith(("range", "shuffle")) else 98_000_000,
                self_seconds=base / 3 if extra else base,
                wait_for_parent_seconds=6.2 if name.startswith("mp_prefetch") else 0.0,
                queue=QueueStatistics(capacity=4, mean_occupancy=0.4, samples=160)
                if name.startswith("mp_prefetch")
                else None,
            )
        )
    random = np.random.default_rng(3)
    by_name = {node.name: node.id for node in nodes}
    cycle = [by_name["map(photo)"]] * 4 + [by_name["map(crop)"], by_name["filter(is_bright)"]]
    spans = []
    for worker in range(2):
        time, number = 0.4 + 0.07 * worker, 0
        while time < 6.4:
            length = float(random.uniform(0.03, 0.09)) * (1.6 if number % 6 < 4 else 0.6)
            spans.append(Span(f"worker {worker}", cycle[number % 6], time, length, 32))
            time += length + float(random.uniform(0.0, 0.012))
            number += 1
    spans += [Span("consumer", by_name["batch(32)"], 0.6 + 0.045 * n, 0.006, 1) for n in range(128)]
    inside = {node.id: node.self_seconds / 2 for node in nodes if node.location == "workers"}
    workers = tuple(
        WorkerStatistics(
            index=index,
            tasks=200 + 4 * index,
            elements=2_560,
            busy_seconds=sum(inside.values()),
            idle_seconds=0.25,
            transport_seconds=0.2,
            node_seconds=inside,
        )
        for index in range(2)
    )
    return PipelineStatistics(
        nodes=tuple(nodes),
        workers=workers,
        wait=WaitStatistics(
            count=158, total_seconds=4.9, p50=0.028, p95=0.061, p99=0.094, longest=0.12
        ),
        consumer_busy_seconds=1.4,
        setup_seconds=0.42,
        elapsed_seconds=6.7,
        elements=160,
        bytes=98_000_000,
        executor="processes",
        name="train",
        spans=tuple(spans),
    )


def take(browser: str, page: pathlib.Path, picture: pathlib.Path, size: str, *more: str) -> None:
    """Take one picture of a page."""
    with tempfile.TemporaryDirectory() as folder:
        command = [browser, *flags(folder), *more, f"--window-size={size}"]
        command += [f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def trim(picture: pathlib.Path) -> None:
    """Cut off the empty rows at the bottom, and reduce the colours, which the text needs few of."""
    with Image.open(picture) as opened:
        image = opened.convert("RGB")
    rows = np.asarray(image)
    used = np.flatnonzero((rows != rows[-1, 0]).any(axis=(1, 2)))
    bottom = min(image.height, int(used[-1]) + 24) if used.size else image.height
    image = image.crop((0, 0, image.width, bottom))
    image.quantize(colors=192, dither=Image.Dither.NONE).save(picture, optimize=True)


def main() -> int:
    """Take all pictures; return 1 if there is no browser."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "docs/_static/page")
    parser.add_argument("--browser", default=find_browser(), help="the path of a Chromium")
    arguments = parser.parse_args()
    if arguments.browser is None:
        print(f"No browser was found: install one of {', '.join(BROWSERS)}.", file=sys.stderr)
        return 1
    arguments.folder.mkdir(parents=True, exist_ok=True)
    ds = pipeline()
    nodes = visualize(ds, measure=False, samples=0).content.nodes
    page = visualize(ds, statistics=statistics(nodes), samples=2, max_seconds=60)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "page.html")
        page.write(file)
        for name, width, height, more in PICTURES:
            picture = arguments.folder / f"{name}.png"
            take(arguments.browser, file, picture.absolute(), f"{width},{height}", *more)
            trim(picture)
            print(f"{picture}: {picture.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
