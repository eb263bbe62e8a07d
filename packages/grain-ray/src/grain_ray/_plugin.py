"""Plugin specs of this package."""

from __future__ import annotations

from grain.plugins import Kind, PluginSpec, hookimpl


@hookimpl
def grain_executors() -> list[PluginSpec]:
    return [
        PluginSpec(
            name="ray",
            target="grain_ray.ray_executor:RayExecutor",
            kind=Kind.EXECUTOR,
            summary="Workers on a Ray cluster, for pipelines that one machine cannot hold.",
            install='pip install "grain-core[ray]>=1,<2"',
        )
    ]
