"""A program that draws the pictures of the pages; the data in them is computed with grain.

Usage: python docs/pictures/draw.py
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from xml.sax.saxutils import escape

import numpy as np

import grain

WIDTH = 480
INK, PALE, LINE, WARN = "#1f2937", "#f3f4f6", "#9ca3af", "#b91c1c"
BLUE, GREEN, AMBER = "#bfdbfe", "#bbf7d0", "#fde68a"
ELEMENTS = 12


# --- drawing -------------------------------------------------------------------------------------


class Picture:
    """Shapes on a white background, as wide as a column of text."""

    def __init__(self, height: int, title: str):
        self._height = height
        self._title = title
        self._shapes: list[str] = []

    def text(
        self, x: float, y: float, words: str, *, size: int = 14, anchor: str = "start", **style: str
    ) -> None:
        """Add words whose middle is at `y`."""
        color = style.get("color", INK)
        weight = f' font-weight="{style["weight"]}"' if "weight" in style else ""
        self._shapes.append(
            f'<text x="{x:g}" y="{y + size * 0.35:g}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="{color}"{weight}>{escape(words)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        words: str = "",
        *,
        fill: str = "white",
        dashed: bool = False,
        size: int = 14,
    ) -> None:
        """Add a box with words in its middle."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{fill}" '
            f'stroke="{LINE}"{dash}/>'
        )
        if words:
            self.text(x + width / 2, y + height / 2, words, size=size, anchor="middle")

    def arrow(self, x1: float, y1: float, x2: float, y2: float, color: str = LINE) -> None:
        """Add a line with a head at its end."""
        self._shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" '
            f'stroke-width="1.5" marker-end="url(#head)"/>'
        )

    def svg(self) -> str:
        """Return the contents of the file."""
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
                f'width="{WIDTH * 1.35:g}" font-family="Helvetica, Arial, sans-serif" role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<defs>{head}</defs>",
                f'<rect width="{WIDTH}" height="{self._height}" fill="white"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )


# --- the pictures --------------------------------------------------------------------------------


def one_stream() -> Picture:
    """Draw blocks of indices that workers compute, and the ordered stream."""
    picture = Picture(
        330, "Indices are split into blocks; workers compute them; the stream is in order."
    )
    cell, left = 34, 36
    shuffled = grain.MapDataset.range(ELEMENTS).shuffle(seed=11)
    order = [shuffled[i] for i in range(ELEMENTS)]
    fills = [BLUE, GREEN, AMBER]
    workers = [0, 1, 2, 1]

    picture.text(left, 16, "position in the stream", size=13)
    picture.text(left, 74, "element there, after the shuffle", size=13)
    for position, element in enumerate(order):
        fill = fills[workers[position // 3]]
        x = left + position * cell
        picture.box(x, 28, cell, 26, str(position), fill=PALE, size=13)
        picture.box(x, 86, cell, 28, str(element), fill=fill)

    for number, fill in enumerate(fills):
        x = 52 + number * 136
        picture.box(x, 166, 104, 40, f"worker {number}", fill=fill)
    for block, worker in enumerate(workers):
        middle = left + (block * 3 + 1.5) * cell
        shift = 14 * (block - 2) if worker == 1 else 0
        picture.arrow(middle, 116, 104 + worker * 136 + shift, 163)
        picture.arrow(104 + worker * 136 + shift, 208, middle, 254)
    picture.text(WIDTH - 4, 232, "done in any order", size=12, anchor="end", color="#4b5563")

    for position, element in enumerate(order):
        x = left + position * cell
        picture.box(x, 258, cell, 28, str(element), fill=fills[workers[position // 3]])
    picture.text(left, 306, "the stream: always the same", size=13, weight="bold")
    return picture


def epochs() -> Picture:
    """Draw three epochs of a shuffled dataset."""
    picture = Picture(196, "Three epochs of a shuffled dataset: each holds every element once.")
    shuffled = grain.MapDataset.range(ELEMENTS).shuffle(seed=11)
    cell, left = 30, 112
    for epoch in range(3):
        y = 40 + epoch * 46
        first = epoch * ELEMENTS
        picture.text(4, y + 8, f"epoch {epoch}", weight="bold")
        picture.text(4, y + 25, f"{first} ... {first + ELEMENTS - 1}", size=12, color="#4b5563")
        for position in range(ELEMENTS):
            element = shuffled[first + position]
            shade = 96 - element * 3.2
            fill = f"hsl(214 90% {shade:.0f}%)"
            picture.box(left + position * cell, y, cell, 32, str(element), fill=fill)
    picture.text(4, 16, "index", size=13)
    picture.text(left, 16, "element: ds[index]", size=13)
    picture.text(left, 182, "the same in every run, and in every process", size=13)
    return picture


def resume() -> Picture:
    """Draw an uninterrupted run, a run that is killed, and a run that resumes it."""
    picture = Picture(
        304, "A run that is stopped after step 7 and resumed from the checkpoint at 6."
    )
    ds = grain.MapDataset.range(ELEMENTS * 2).shuffle(seed=11).batch(2).to_iter_dataset()
    iterator = iter(ds)
    batches = []
    states = {}
    for step in range(ELEMENTS):
        states[step] = iterator.get_state()
        batches.append(" ".join(str(x) for x in next(iterator)))
    cell, left = 38.5, 12

    def lane(y: float, words: str, steps: range, lost: range = range(0)) -> None:
        picture.text(left, y, words, size=13, weight="bold")
        for step in steps:
            fill = "white" if step in lost else (BLUE if step < 6 else GREEN)
            box = (left + step * cell, y + 14, cell, 30)
            picture.box(*box, batches[step], fill=fill, dashed=step in lost, size=12)

    lane(16, "uninterrupted", range(ELEMENTS))
    lane(98, "8 workers, killed after step 7", range(8), lost=range(6, 8))
    picture.text(left + 8 * cell + 12, 127, "killed", color=WARN, weight="bold")
    at = left + 6 * cell
    picture.arrow(at, 144, at, 166)
    state = str(states[6]).replace("'", '"')
    picture.box(at - 128, 168, 256, 30, f"checkpoint: {state}", fill=AMBER)
    picture.arrow(at, 198, at, 234)
    lane(224, "no workers, another machine", range(6, ELEMENTS))
    picture.text(left, 290, "Steps 6 and 7 are computed again, and are the same.", size=13)
    return picture


def packing() -> Picture:
    """Draw documents of different lengths, padded and packed."""
    lengths = [5, 3, 8, 2, 4, 6]
    documents = [{"tokens": np.full(n, i + 1)} for i, n in enumerate(lengths)]
    ds = grain.MapDataset.source(documents).to_iter_dataset()
    options = {"num_packing_bins": 4, "shuffle_bins": False}
    rows = [row["tokens"] for row in ds.pack({"tokens": 8}, **options)]
    fills = ["", BLUE, GREEN, AMBER, "#fecaca", "#ddd6fe", "#a5f3fc"]
    picture = Picture(
        212, "Six documents: one to a row, half of the cells are padding; packed, few."
    )
    cell = 25

    def grid(left: float, row: int, tokens: np.ndarray) -> None:
        for position, token in enumerate(tokens.tolist()):
            box = (left + position * cell, 30 + row * 29, cell, 25)
            picture.box(*box, str(token) if token else "", fill=fills[token] or "white", size=12)

    picture.text(10, 14, f"one to a row: {len(lengths)} rows", size=13, weight="bold")
    for row, document in enumerate(documents):
        grid(10, row, np.pad(document["tokens"], (0, 8 - len(document["tokens"]))))
    picture.text(266, 14, f"packed: {len(rows)} rows", size=13, weight="bold")
    for row, tokens in enumerate(rows):
        grid(266, row, tokens)
    return picture


LAYERS: list[tuple[str, list[tuple[str, str]]]] = [
    ("#ddd6fe", [("cli", "commands"), ("testing", "conformance kit")]),
    ("#ddd6fe", [("python, experimental", "collections of public names")]),
    (
        AMBER,
        [
            ("loader", "DataLoader"),
            ("checkpoint", "files, Orbax"),
            ("observe", "telemetry"),
            ("plugins", "registry"),
        ],
    ),
    (GREEN, [("execution", "plan, executors, worker sessions, transport")]),
    (BLUE, [("dataset", "nodes and iterators, one file per operation")]),
    (PALE, [("tree", "trees of arrays"), ("memory", "allocator, buffer pool")]),
    (PALE, [("value types", "transforms, samplers, index, options, _policy, _lazy, ...")]),
]
"""The layers, topmost first: the fill, and the name and contents of each package."""


def layers() -> Picture:
    """Draw the layers of the core; each imports only from the layers below it."""
    height, gap, left = 40, 14, 34
    picture = Picture(
        len(LAYERS) * (height + gap) + 8,
        "The layers of grain-core, topmost first. Imports go downwards only.",
    )
    for number, (fill, packages) in enumerate(LAYERS):
        y = 8 + number * (height + gap)
        width = (WIDTH - left - 8 - 8 * (len(packages) - 1)) / len(packages)
        for column, (name, contents) in enumerate(packages):
            x = left + column * (width + 8)
            picture.box(x, y, width, height, fill=fill)
            picture.text(x + width / 2, y + 13, name, anchor="middle", weight="bold", size=13)
            picture.text(x + width / 2, y + 29, contents, anchor="middle", size=11)
    picture.arrow(16, 8, 16, len(LAYERS) * (height + gap) - gap + 8)
    return picture


def life_of_a_batch() -> Picture:
    """Draw the path of a batch between the consuming process and a worker."""
    picture = Picture(
        486, "A batch from next() through plan, task, worker, slot and chunk to the consumer."
    )
    # The two processes, and the memory that they share.
    picture.box(8, 30, 226, 448, fill=PALE)
    picture.box(298, 156, 174, 194, fill=PALE)
    picture.text(121, 16, "consuming process", anchor="middle", weight="bold", size=13)
    picture.text(385, 142, "worker process", anchor="middle", weight="bold", size=13)

    def step(
        y: float, title: str, words: str, *, x: float = 20, width: float = 202, fill: str
    ) -> None:
        picture.box(x, y, width, 40, fill=fill)
        picture.text(x + width / 2, y + 13, title, anchor="middle", weight="bold", size=13)
        picture.text(x + width / 2, y + 29, words, anchor="middle", size=11)

    step(42, "plan", "which part runs where", fill=GREEN)
    step(106, "build", "one iterator for each part", fill=GREEN)
    step(170, "fused iterator", "submits blocks, bounded in flight", fill=BLUE)
    worker = {"x": 310, "width": 150}
    step(170, "read_many", "a block of indices", fill=BLUE, **worker)
    step(234, "apply_chunk", "each stage of the block", fill=BLUE, **worker)
    step(298, "slot", "in shared memory", fill=AMBER, **worker)
    step(298, "chunk", "elements in order, snapshots", fill=BLUE)
    step(362, "ordered rest", "batch after a filter, packing", fill=BLUE)
    step(426, "next(), get_state()", "the consumer", fill="white")

    for y1, y2 in ((82, 104), (146, 168), (338, 360), (402, 424)):
        picture.arrow(121, y1, 121, y2)
    picture.arrow(385, 210, 385, 232)
    picture.arrow(385, 274, 385, 296)
    picture.arrow(222, 190, 308, 190)
    picture.text(266, 178, "task", anchor="middle", size=12)
    picture.arrow(310, 318, 224, 318)
    picture.text(266, 306, "result", anchor="middle", size=12)
    picture.text(266, 332, "no copy", anchor="middle", size=12)
    picture.arrow(121, 210, 121, 296)
    picture.text(129, 252, "tickets, by block", size=12)
    return picture


def cluster() -> Picture:
    """Draw the processes of a pipeline on a cluster, and what each of them survives."""
    picture = Picture(
        330, "The training process talks to a gateway; the gateway talks to actors on all nodes."
    )
    picture.box(8, 30, 216, 292, fill=PALE)
    picture.text(116, 16, "consumer's machine", anchor="middle", weight="bold", size=13)
    picture.box(268, 30, 204, 292, fill=PALE, dashed=True)
    picture.text(370, 16, "other nodes of the cluster", anchor="middle", weight="bold", size=13)

    def part(x: float, y: float, width: float, title: str, words: str, fill: str) -> None:
        picture.box(x, y, width, 44, fill=fill)
        picture.text(x + width / 2, y + 15, title, anchor="middle", weight="bold", size=13)
        picture.text(x + width / 2, y + 31, words, anchor="middle", size=11)

    part(20, 44, 192, "training process", "order, states, resubmission", BLUE)
    part(20, 142, 192, "gateway", "joins Ray; no code of the user", AMBER)
    part(20, 262, 92, "actor", "computes", GREEN)
    part(120, 262, 92, "actor", "computes", GREEN)
    for y in (142, 202, 262):
        part(280, y, 180, "actor", "computes blocks", GREEN)
    part(280, 44, 180, "head", "membership of the cluster", "white")
    picture.arrow(90, 90, 90, 140)
    picture.arrow(140, 140, 140, 90)
    picture.text(150, 115, "shared memory", size=12)
    picture.arrow(66, 188, 66, 260)
    picture.arrow(166, 188, 166, 260)
    picture.text(116, 226, "object store", anchor="middle", size=12)
    for y in (164, 224, 284):
        picture.arrow(214, 164, 278, y)
    return picture


def plugin_parts() -> Picture:
    """Draw a plugin's package: entry point, spec, target and cases, and who uses each."""
    picture = Picture(
        300, "The entry point names a module with specs and cases; a spec names its target as text."
    )
    picture.box(20, 14, 440, 210, fill=PALE)
    picture.text(32, 30, "plugin: the package grain-my-format", size=13, weight="bold")
    picture.box(
        36, 46, 408, 34, "entry point in pyproject.toml: grain_my_format._plugin", fill="white"
    )
    picture.box(36, 112, 190, 44, "spec: names, capabilities", fill=BLUE)
    picture.box(254, 112, 190, 44, "cases: data, make()", fill=GREEN)
    picture.box(36, 176, 408, 34, "target: MyFormatDataSource, and its writer", fill=AMBER)
    picture.arrow(131, 80, 131, 110)
    picture.arrow(349, 80, 349, 110)
    picture.arrow(131, 156, 131, 174)
    picture.text(140, 165, "names it as text", size=11)
    picture.arrow(349, 156, 349, 174)
    picture.text(358, 165, "make it", size=11)
    picture.text(140, 95, "grain_sources()", size=11)
    picture.text(358, 95, "grain_conformance_cases()", size=11)
    picture.box(36, 250, 190, 34, "grain plugins list", dashed=True)
    picture.box(254, 250, 190, 34, "grain conformance", dashed=True)
    picture.arrow(36, 250, 26, 136)
    picture.arrow(444, 250, 452, 136)
    return picture


PICTURES = {
    "plugin-parts": plugin_parts,
    "layers": layers,
    "life-of-a-batch": life_of_a_batch,
    "cluster": cluster,
    "one-stream": one_stream,
    "epochs": epochs,
    "resume": resume,
    "packing": packing,
}


def drawn() -> Iterator[tuple[str, str]]:
    """Yield the name and the contents of each file."""
    for name, draw in PICTURES.items():
        yield f"{name}.svg", draw().svg()


def main() -> None:
    """Write all pictures."""
    for name, text in drawn():
        (pathlib.Path(__file__).parent / name).write_text(text)


if __name__ == "__main__":
    main()
