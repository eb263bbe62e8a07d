"""Realistic statistics for tests of everything that reads them; nothing is measured."""

from __future__ import annotations

import dataclasses
from typing import Any

from grain.observe.statistics import (
    NodeStatistics,
    PipelineStatistics,
    QueueStatistics,
    Span,
    WaitStatistics,
    WorkerStatistics,
)


def sample_statistics(**changes: Any) -> PipelineStatistics:
    """Return statistics of a pipeline of images with two workers, limited by `decode`.

    Args:
        changes: Fields of `PipelineStatistics` to replace.
    """
    nodes = (
        NodeStatistics(
            id=0,
            operation="source",
            name="source(ArrayRecordDataSource)",
            location="workers",
            length=50_000,
            elements_in=0,
            elements_out=6_400,
            bytes_out=640_000_000,
            self_seconds=0.8,
            cpu_seconds=0.3,
        ),
        NodeStatistics(
            id=1,
            operation="shuffle",
            name="shuffle(seed=0)",
            parents=(0,),
            location="workers",
            length=50_000,
            elements_in=6_400,
            elements_out=6_400,
            bytes_out=640_000_000,
            self_seconds=0.01,
            cpu_seconds=0.01,
        ),
        NodeStatistics(
            id=2,
            operation="map",
            name="map(decode)",
            function="decode",
            parents=(1,),
            location="workers",
            spec="{'image': uint8[224, 224, 3], 'label': int64[]}",
            length=50_000,
            elements_in=6_400,
            elements_out=6_400,
            bytes_out=963_000_000,
            self_seconds=17.4,
            cpu_seconds=17.2,
        ),
        NodeStatistics(
            id=3,
            operation="to_iter_dataset",
            name="to_iter_dataset()",
            parents=(2,),
            location="workers",
            length=50_000,
            elements_in=6_400,
            elements_out=6_400,
            bytes_out=963_000_000,
            self_seconds=0.02,
        ),
        NodeStatistics(
            id=4,
            operation="filter",
            name="filter(is_large)",
            function="is_large",
            parents=(3,),
            location="workers",
            elements_in=6_400,
            elements_out=5_120,
            dropped=1_280,
            bytes_out=770_000_000,
            self_seconds=0.2,
        ),
        NodeStatistics(
            id=5,
            operation="batch",
            name="batch(batch_size=32)",
            parents=(4,),
            location="consumer",
            spec="{'image': uint8[32, 224, 224, 3], 'label': int64[32]}",
            elements_in=5_120,
            elements_out=160,
            bytes_out=770_000_000,
            self_seconds=0.6,
            wait_for_parent_seconds=8.1,
            queue=QueueStatistics(capacity=8, mean_occupancy=0.6, samples=160),
        ),
    )
    workers = tuple(
        WorkerStatistics(
            index=index,
            kind="process",
            tasks=100,
            elements=2_560,
            bytes=385_000_000,
            busy_seconds=9.6,
            idle_seconds=0.3,
            cpu_seconds=9.2,
            transport_seconds=0.3,
            restarts=index,
            node_seconds={0: 0.4, 1: 0.005, 2: 8.7, 3: 0.01, 4: 0.1},
        )
        for index in range(2)
    )
    spans = tuple(
        Span(f"worker {number % 2}", 2, 0.5 + 0.1 * number, 0.15, 32) for number in range(40)
    ) + tuple(Span("consumer", 5, 0.6 + 0.1 * number, 0.004, 1) for number in range(40))
    sample = PipelineStatistics(
        nodes=nodes,
        workers=workers,
        wait=WaitStatistics(
            count=159,
            total_seconds=8.7,
            p50=0.051,
            p95=0.11,
            p99=0.16,
            longest=0.21,
            warm_up_count=1,
            warm_up_seconds=0.6,
        ),
        consumer_busy_seconds=1.3,
        setup_seconds=0.7,
        elapsed_seconds=10.7,
        elements=160,
        bytes=770_000_000,
        executor="processes",
        name="train",
        epoch=0,
        started_at=1_700_000_000.0,
        spans=spans,
        process_cpu_seconds=1.9,
    )
    return dataclasses.replace(sample, **changes)
