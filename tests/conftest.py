"""Tests run on 8 virtual CPU devices, with rank promotion forbidden."""

import os
import pathlib

import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
).strip()


@pytest.fixture(scope="module")
def quick_compilation():
    """For modules whose programs run once each: most of the time would go into optimizing them."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The authors' specification and data; tests that need them skip where they are absent."""
    folder = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared (specification and data), which is not part of the project")
    return folder
