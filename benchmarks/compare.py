"""Comparison of two versions of this project, interleaved, by the cost of one element.

    python -m benchmarks.compare --base PYTHON --head PYTHON [--cases A,B] [--rounds N]

Both versions do the same fixed amount of work, alternately. A case is slower if its cost, in instructions
where the machine counts them and else in processor time, grew in the median by more than the threshold and
in every round; such a case is measured once more before it is reported. Elapsed time is only shown.
`nox -s compare` creates the environments and runs this command.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import cases, data, peers
from benchmarks.__main__ import names, select
from benchmarks.cases import Case, Measure
from benchmarks.command import ROOT
from benchmarks.cost import Cost
from benchmarks.measure import LEAST_OUTPUTS
from benchmarks.run import PeerProcess, Pool
from benchmarks.summary import Spread, spread

BASE, HEAD = "base", "head"
ROUNDS = 5
THRESHOLD = 1.05
SECONDS = 0.3
"""How long the fixed amount of work of a rate takes, about."""
TIMEOUT = 120.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """One case with both versions; ratios above 1 mean that the head costs more.

    Attributes:
        case: The case's name.
        base: Costs of the base, one for each round.
        head: Costs of the head.
        error: Why there are no costs, or None.
    """

    case: str
    base: tuple[Cost, ...] = ()
    head: tuple[Cost, ...] = ()
    error: str | None = None

    def ratio(self, of: Callable[[Cost], float | None]) -> Spread | None:
        """Return the ratio of one quantity, head to base, or None where it was not measured."""
        pairs = [(of(base), of(head)) for base, head in zip(self.base, self.head, strict=True)]
        ratios = [head / base for base, head in pairs if base and head is not None]
        return spread(ratios) if ratios and len(ratios) == len(pairs) else None

    @property
    def cost(self) -> Spread | None:
        """The ratio that decides: of instructions if they were counted, else of processor time."""
        return self.ratio(lambda c: c.instructions) or self.ratio(lambda c: c.processor)

    def slower(self, threshold: float) -> bool:
        """Return whether the head costs more than the threshold allows, in every round."""
        ratio = self.cost
        return ratio is not None and ratio.median > threshold and ratio.low > 1

    def __add__(self, more: Comparison) -> Comparison:
        return Comparison(
            case=self.case, base=self.base + more.base, head=self.head + more.head, error=more.error
        )


def compare_case(case: Case, pool: Pool, rounds: int) -> Comparison:
    """Measure one case in alternating order."""
    if case.measure is Measure.MEMORY:
        # Memory that earlier cases left in a process must not be counted.
        pool.end()
    failed = pool.ready([BASE, HEAD])
    outputs = LEAST_OUTPUTS
    if not failed and case.measure is Measure.RATE:
        answer = pool.ask(BASE, case=case.name, seconds=SECONDS)
        if "value" not in answer:
            return Comparison(case=case.name, error=f"{BASE}: {problem(answer)}")
        outputs = max(LEAST_OUTPUTS, round(answer["value"] * SECONDS / case.per_output))
    costs: dict[str, list[Cost]] = {BASE: [], HEAD: []}
    for number in range(rounds):
        for version in (BASE, HEAD) if number % 2 == 0 else (HEAD, BASE):
            if failed:
                continue
            answer = ask(pool, version, case, outputs)
            if "cost" in answer:
                costs[version].append(Cost(**answer["cost"]))
            else:
                failed[version] = problem(answer)
    if failed:
        text = "; ".join(f"{version}: {error}" for version, error in failed.items())
        return Comparison(case=case.name, error=text)
    return Comparison(case=case.name, base=tuple(costs[BASE]), head=tuple(costs[HEAD]))


def ask(pool: Pool, version: str, case: Case, outputs: int) -> dict[str, Any]:
    """Return the answer of one version, with memory in place of a cost where memory is measured."""
    if case.measure is not Measure.MEMORY:
        return pool.ask(version, case=case.name, outputs=outputs)
    answer = pool.ask(version, case=case.name, seconds=SECONDS)
    if "value" in answer:
        return {"cost": {"processor": answer["value"], "elapsed": answer["value"]}}
    return answer


def problem(answer: dict[str, Any]) -> str:
    """Return why an answer has no value."""
    return str(answer.get("error") or answer.get("lacks") or f"answered {answer}")


def compare(
    wanted: Sequence[Case],
    pool: Pool,
    rounds: int,
    threshold: float,
    report: Callable[[str], None] = print,
) -> list[Comparison]:
    """Compare all cases; measure those that seem slower once more.

    Args:
        wanted: The cases.
        pool: The processes of both versions.
        rounds: How often each version is measured.
        threshold: The ratio above which a case is slower.
        report: Receives a line for each case.
    """
    found = []
    for case in wanted:
        comparison = compare_case(case, pool, rounds)
        if comparison.slower(threshold):
            comparison += compare_case(case, pool, rounds)
        found.append(comparison)
        report(line(comparison, threshold))
    return found


def line(comparison: Comparison, threshold: float) -> str:
    """Return a line of the table."""
    if comparison.error is not None:
        return f"{comparison.case:30} failed: {comparison.error}"
    columns = [
        comparison.ratio(lambda c: c.instructions),
        comparison.ratio(lambda c: c.processor),
        comparison.ratio(lambda c: c.elapsed),
    ]
    verdict = "SLOWER" if comparison.slower(threshold) else ""
    return f"{comparison.case:30} {' '.join(map(cell, columns))} {verdict}".rstrip()


def cell(ratio: Spread | None) -> str:
    """Return a ratio with its range, of fixed width."""
    text = "-" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
    return f"{text:22}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="nox -s compare --", description=__doc__.split("\n")[0])
    made.add_argument("--base", required=True, metavar="PYTHON", help="the Python of the base")
    made.add_argument("--head", required=True, metavar="PYTHON", help="the Python of the head")
    made.add_argument("--cases", type=names, metavar="A,B", help="only these cases")
    made.add_argument("--rounds", type=int, default=ROUNDS, help="default: %(default)s")
    made.add_argument(
        "--threshold", type=float, default=THRESHOLD, metavar="RATIO", help="default: %(default)s"
    )
    made.add_argument(
        "--output", type=pathlib.Path, default=ROOT / "build/compare", metavar="FOLDER"
    )
    return made


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a case got slower or failed with the head."""
    arguments = parser().parse_args(command_line)
    wanted = [cases.BY_NAME[n] for n in select(arguments.cases, list(cases.BY_NAME), "case")]
    arguments.output.mkdir(parents=True, exist_ok=True)
    files = data.make(arguments.output / "data")
    pythons = {BASE: arguments.base, HEAD: arguments.head}

    def start(version: str) -> PeerProcess:
        command = [pythons[version], "-m", "benchmarks.serve", peers.OURS, str(files.folder)]
        return PeerProcess(command, arguments.output / f"{version}.txt")

    print(f"{'head / base, per element':30} {'instructions':22} {'processor time':22} elapsed time")
    pool = Pool(start, TIMEOUT)
    try:
        found = compare(wanted, pool, arguments.rounds, arguments.threshold)
    finally:
        pool.end()
    slower = [c.case for c in found if c.slower(arguments.threshold)]
    failed = [c.case for c in found if c.error is not None]
    print(f"slower: {', '.join(slower) or 'none'}; failed: {', '.join(failed) or 'none'}")
    return 1 if slower or failed else 0


if __name__ == "__main__":
    sys.exit(main())
