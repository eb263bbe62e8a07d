"""Two hosts with `jax.distributed`, as processes of this machine: each reads its part of every batch.

On a cluster, start the same program on each host, and let JAX find the others.

Install: pip install "./packages/grain-core[jax]"
Run:     python examples/multi_host.py
"""

from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np

import grain

HOSTS, BATCH_SIZE = 2, 4


def run_host(address: str, number: int) -> None:
    """Join the other hosts, read this host's share, and sum over all hosts."""
    import jax

    jax.distributed.initialize(address, num_processes=HOSTS, process_id=number)
    shard = grain.ShardByJaxProcess()
    ds = grain.MapDataset.range(20).shuffle(seed=3).shard_batches(shard, BATCH_SIZE)
    for step, batch in enumerate(ds):
        print(f"step {step}, host {number} of {shard.shard_count}: {np.asarray(batch).tolist()}")
    jax.distributed.shutdown()


def main() -> None:
    """Start both hosts and print what they read, in order."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    hosts = [
        subprocess.Popen(
            [sys.executable, __file__, address, str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in range(HOSTS)
    ]
    texts = [host.communicate(timeout=100)[0] for host in hosts]
    if any(host.returncode for host in hosts):
        sys.exit("A host failed; its error is above.")
    lines = sorted(line for text in texts for line in text.splitlines())
    print("\n".join(lines))
    elements = [int(x) for line in lines for x in line.split(": ")[1].strip("[]").split(",")]
    print(f"{len(elements)} elements, {len(set(elements))} different")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run_host(sys.argv[1], int(sys.argv[2]))
    else:
        main()
