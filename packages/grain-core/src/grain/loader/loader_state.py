"""The state of a `DataLoader`'s iterator, as readable JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from grain.dataset.fingerprint.changes import ChangedPipelineError, allowed_changes, difference
from grain.options import checked_int
from grain.sharding import ShardOptions

_VERSION = 2
_MOST_CHARACTERS = 2000


def encode(
    inner: Any, shard: ShardOptions, worker_count: int, sampler: str, data_source: str
) -> bytes:
    """Return the bytes of a loader's state, given the state of its dataset."""
    del worker_count  # The state does not depend on the number of workers.
    seen = _records_seen(inner)
    fields: dict[str, Any] = {
        "version": _VERSION,
        "last_seen_indices": {"0": (seen - 1) * shard.shard_count + shard.shard_index},
        "last_worker_index": -1,
        "worker_count": 0,
        "sampler": sampler,
        "data_source": data_source,
    }
    if inner != {"next_index": seen}:
        # More than an index in the sampler's order, such as the offset in a split record.
        fields["pipeline"] = inner
    return json.dumps(fields, indent=4).encode()


def decode(state: Any, shard: ShardOptions, sampler: str, data_source: str) -> Any:
    """Return the state of the loader's dataset; raise if the state belongs to another loader."""
    fields = _parse(state)
    if "next_index_in_buffer" in fields and "version" not in fields:
        return fields  # From google/grain, of a loader that splits records.
    for field in ("last_seen_indices", "worker_count", "sampler", "data_source"):
        if field not in fields:
            raise KeyError(
                f"The state of a DataLoader must have the field {field!r}; got {fields}."
            )
    if fields["sampler"] != sampler and "sampler" not in allowed_changes():
        raise ChangedPipelineError(
            # Message kept from google/grain 0.2.18
            "Sampler in checkpoint does not match dataloader sampler.\n"
            f"sampler in checkpoint: {fields['sampler']}\nsampler in dataloader: {sampler}\n"
            "Grain uses `repr(sampler)` to validate the sampler, so you may need to implement a "
            f"custom `__repr__`.{_difference(fields['sampler'], sampler)}\n"
            'If the change is deliberate, allow it by name: `allow=("sampler",)`.',
            ["sampler"],
        )
    if fields["data_source"] != data_source and not allowed_changes() & {"source", "file"}:
        raise ChangedPipelineError(
            # Message kept from google/grain 0.2.18
            "DataSource in checkpoint does not match datasource in dataloader.\n"
            f"data source in checkpoint: {fields['data_source']}\n"
            f"data source in dataloader: {data_source}\n"
            "Grain uses `repr(data_source)` to validate the source, so you may need to implement a "
            f"custom `__repr__`.{_difference(fields['data_source'], data_source)}\n"
            'If the change is deliberate, allow it by name: `allow=("source",)`.',
            ["source"],
        )
    if "pipeline" in fields:
        return fields["pipeline"]
    return {"next_index": _next_index(fields["last_seen_indices"], shard)}


def _difference(saved: Any, present: str) -> str:
    """Return the arguments that differ, one per line, if both texts are calls of one name."""
    before, after = _as_call(str(saved)), _as_call(present)
    if before is None or after is None or before[0] != after[0]:
        return ""
    return f"\nThe arguments (-: in the checkpoint, +: here):\n{difference(before, after)}"


def _as_call(text: str) -> list[str] | None:
    """Return the name and the outer arguments of `Name(a=1, b=Other(c=2, d=3))`, or None."""
    found = re.fullmatch(r"(\w+)\((.*)\)", text)
    if found is None:
        return None
    arguments, depth = [""], 0
    for character in found[2]:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += character
    return [found[1], *(argument.strip() for argument in arguments)]


def _parse(state: Any) -> dict[str, Any]:
    if isinstance(state, Mapping):
        return dict(state)
    if not isinstance(state, (bytes, bytearray, str)):
        raise TypeError(
            "The state of a DataLoader must be the bytes that `get_state()` returned, got "
            f"{state!r} of type {type(state).__name__}."
        )
    try:
        fields = json.loads(state)
    except (ValueError, RecursionError) as error:
        shown = state[:_MOST_CHARACTERS]
        more = "" if len(shown) == len(state) else f", and {len(state) - len(shown)} more"
        error.add_note(f"The state of a DataLoader must be JSON, got {shown!r}{more}.")
        raise
    if not isinstance(fields, dict):
        raise ValueError(f"The state of a DataLoader must be a JSON object, got {fields!r}.")
    return fields


def _next_index(last_seen: Mapping[str, int], shard: ShardOptions) -> int:
    """Return the number of records of this shard that were read.

    A state of google/grain may list several workers, which read records round robin. Together they must
    have read the first records without a gap; otherwise no single index describes their positions.
    """
    if not isinstance(last_seen, Mapping):
        raise TypeError(
            "`last_seen_indices` must map each worker's number to the last index it has read, got "
            f"{last_seen!r}."
        )
    count = max(1, len(last_seen))
    taken = []
    misplaced = False  # Whether an index belongs to another worker, or to another shard.
    for worker in range(count):
        if str(worker) not in last_seen:
            raise KeyError(
                f"`last_seen_indices` must contain worker {str(worker)!r}; got {dict(last_seen)}."
            )
        last = checked_int("The last seen index", last_seen[str(worker)], least=-(2**63))
        local, other_shard = divmod(last - shard.shard_index, shard.shard_count)
        rounds, other_worker = divmod(local - worker, count)
        taken.append(0 if last < 0 else rounds + 1)
        misplaced = misplaced or (last >= 0 and bool(other_shard or other_worker))
    total = sum(taken)
    expected = [(total - worker + count - 1) // count for worker in range(count)]
    if misplaced or taken != expected:
        raise ValueError(
            f"No single index of shard {shard.shard_index} of {shard.shard_count} describes the position "
            f"of the checkpoint's workers, last_seen_indices={dict(last_seen)}. Restore it with the "
            "library, the shards and the worker count that saved it, and save it again after a whole "
            "number of rounds over the workers."
        )
    return total


def _records_seen(inner: Any) -> int:
    """Return the number of records that were read for the elements returned so far."""
    if "next_index" in inner:
        return int(inner["next_index"])
    seen = _records_seen(inner["parent"])
    return seen + 1 if inner.get("next_index_in_buffer", 0) else seen
