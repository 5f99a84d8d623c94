"""Saving and restoring a run's state: exact, whole or not at all, and quick."""

import dataclasses
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlvr_jax.checkpoint import CheckpointConfig, Checkpoints, read_params
from rlvr_jax.learner import OptimConfig, init_state, make_optimizer
from rlvr_jax.sharding import MeshConfig, make_mesh, tree_shardings
from rlvr_jax.store import compare, describe

L, D, V = 2, 16, 24


def make_params():
    def leaf(*shape, dtype=jnp.float32):
        return jnp.sin(jnp.arange(np.prod(shape), dtype=jnp.float32)).reshape(shape).astype(dtype)

    return {
        "embed": leaf(V, D, dtype=jnp.bfloat16),
        "layers": {
            "q": leaf(L, D, D),
            "down": leaf(L, 2 * D, D),
            "attn_norm": leaf(L, D),
        },
        "final_norm": leaf(D),
    }


TX = make_optimizer(OptimConfig(), total_steps=100)


def whole_mesh():
    return make_mesh(MeshConfig(data=1, fsdp=-1, tensor=2 if len(jax.devices()) % 2 == 0 else 1))


@pytest.fixture(scope="module")
def state():
    """A state after some updates: moments, counters and bf16 leaves all hold real numbers."""
    state = init_state(make_params, TX, whole_mesh())

    @jax.jit
    def update(state):
        grads = jax.tree.map(lambda p: jnp.sin(p.astype(jnp.float32)).astype(p.dtype), state.params)
        updates, opt_state = TX.update(grads, state.opt_state, state.params)
        params = jax.tree.map(jnp.add, state.params, updates)
        return dataclasses.replace(state, step=state.step + 1, params=params, opt_state=opt_state)

    for _ in range(3):
        state = jax.device_put(update(state), jax.tree.map(lambda a: a.sharding, state))
    return state


@pytest.fixture
def opened(tmp_path):
    """opened(folder, keep=...) -> (Checkpoints, the list its notes go to); closed at the end."""
    all_opened = []

    def one(folder="run", **config):
        notes = []
        all_opened.append(Checkpoints(tmp_path / folder, CheckpointConfig(**config), notes.append))
        return all_opened[-1], notes

    yield one
    for checkpoints in all_opened:
        checkpoints.close()


def same_bits(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert describe(a) == describe(b)
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def plus(state, number):
    """Another state of the same structure."""
    return dataclasses.replace(state, step=state.step + number)


def on_disk(folder):
    return sorted(int(p.name) for p in pathlib.Path(folder).iterdir() if p.name.isdigit())


def test_a_state_comes_back_bit_for_bit(opened, state):
    first, _ = opened()
    host = {"cursor": [3, 0.1 + 0.2], "stage": "rl", "pending": {"uids": [1, 2]}, "none": None}
    assert first.save(7, state, host)
    assert not first.save(7, state, {})
    first.wait()
    second, notes = opened()
    index, back, host_back, reference = second.restore(state)
    assert (index, host_back, reference, notes) == (7, host, None, [])
    assert same_bits(back, state)
    assert back.params["embed"].dtype == jnp.bfloat16 and back.step.dtype == jnp.int32
    for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(state), strict=True):
        assert a.sharding.is_equivalent_to(b.sharding, a.ndim)


def test_nothing_saved_gives_none(opened, state):
    assert opened()[0].restore(state) is None


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 2, 2), (1, 4, 1), (8, 1, 1)])
def test_another_mesh_reads_the_same_numbers(opened, state, size):
    if len(jax.devices()) < np.prod(size):
        pytest.skip(f"needs {np.prod(size)} devices")
    opened()[0].save(1, state, {})
    mesh = make_mesh(MeshConfig(*size), jax.devices()[: np.prod(size)])
    shapes = jax.eval_shape(lambda: state)
    like = jax.tree.map(
        lambda a, s: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=s),
        shapes,
        tree_shardings(shapes, mesh),
    )
    first, _ = opened("other")
    first.save(1, state, {})
    back = first.restore(like).state
    assert same_bits(back, state)
    assert back.params["layers"]["q"].sharding.mesh == mesh


def test_what_is_donated_and_changed_after_save_is_saved_as_it_was(opened, state):
    """Orbax writes from a thread: it must have its own copy by the time save returns."""
    checkpoints, _ = opened(keep=8)
    copy = jax.tree.map(lambda a: jax.device_put(np.array(a), a.sharding), state)
    bump = jax.jit(lambda s: jax.tree.map(lambda a: a + 1, s), donate_argnums=0)
    host, expected = {"list": [0]}, {}
    for index in range(4):
        expected[index] = jax.tree.map(np.array, copy)
        checkpoints.save(index, copy, host)
        host["list"][0] += 1
        for _ in range(3):
            copy = bump(copy)
    checkpoints.wait()
    for index in reversed(range(4)):
        found = checkpoints.restore(state)
        assert found.index == index and found.host == {"list": [index]}
        assert same_bits(jax.tree.map(np.asarray, found.state), expected[index])
        (opened_folder := checkpoints._states.folder / str(index) / "files.json").unlink()
        assert not opened_folder.exists()


def test_parameters_alone_are_read_beside_a_save_in_flight(opened, state, tmp_path):
    checkpoints, _ = opened(keep=3)
    others = [jax.tree.map(lambda a, n=n: a + n, state.params) for n in range(3)]
    for index, metric in enumerate([0.1, 0.7, None]):
        checkpoints.save(index, dataclasses.replace(state, params=others[index]), {}, metric)
    checkpoints.wait()
    half = tmp_path / "run/checkpoints/3.orbax-checkpoint-tmp"
    half.mkdir()
    for which, index in (("newest", 2), ("best", 1), (0, 0)):
        found, params = read_params(tmp_path / "run", state.params, which)
        assert found == index and same_bits(params, others[index])
        assert params["embed"].sharding == state.params["embed"].sharding
    assert half.exists()


def test_parameters_that_are_not_there(opened, state, tmp_path):
    with pytest.raises(ValueError, match="no checkpoint in .*run/checkpoints"):
        read_params(tmp_path / "run", state.params)
    assert list(tmp_path.iterdir()) == []
    checkpoints, _ = opened()
    checkpoints.save(4, state, {})
    checkpoints.wait()
    with pytest.raises(ValueError, match="no checkpoint 3 in .*; there are 4"):
        read_params(tmp_path / "run", state.params, 3)
    with pytest.raises(ValueError, match="no checkpoint with a metric in"):
        read_params(tmp_path / "run", state.params, "best")
    with pytest.raises(ValueError, match="missing in the checkpoint: params/head"):
        read_params(tmp_path / "run", state.params | {"head": state.params["embed"]})
    big_file(tmp_path / "run/checkpoints/4").unlink()
    with pytest.raises(ValueError, match="4 is damaged: .* is missing"):
        read_params(tmp_path / "run", state.params)


# What is kept ------------------------------------------------------------------------------------


def test_the_newest_and_the_best_are_kept(opened, state, tmp_path):
    checkpoints, _ = opened(keep=2, keep_best=1)
    for index, metric in enumerate([0.2, 0.9, None, 0.9, 0.3, None, 0.4]):
        checkpoints.save(index, state, {}, metric)
    checkpoints.wait()
    assert on_disk(tmp_path / "run/checkpoints") == [3, 5, 6]  # of equals the newer


def test_the_best_is_known_again_after_a_restart(opened, state, tmp_path):
    first, _ = opened(keep=1, keep_best=1)
    first.save(0, state, {}, 0.8)
    first.save(1, state, {}, 0.5)
    first.close()
    second, _ = opened(keep=1, keep_best=1)
    second.save(2, state, {}, 0.6)
    second.wait()
    assert on_disk(tmp_path / "run/checkpoints") == [0, 2]


def test_no_best_where_it_is_off(opened, state, tmp_path):
    checkpoints, _ = opened(keep=2, keep_best=0)
    for index in range(4):
        checkpoints.save(index, state, {}, 1 - 0.1 * index)
    checkpoints.wait()
    assert on_disk(tmp_path / "run/checkpoints") == [2, 3]


@pytest.mark.parametrize("field, value", [("every", 0), ("keep", 0), ("keep_best", -1)])
def test_config_is_checked(field, value):
    with pytest.raises(ValueError, match=f"checkpoint.{field} must be at least"):
        CheckpointConfig(**{field: value})


def test_orbax_is_quiet_only_while_checkpoints_are_open(tmp_path):
    def record(path, level):
        return logging.LogRecord("absl", level, path, 1, "text", (), None)

    logger = logging.getLogger("absl")
    before = list(logger.filters)
    checkpoints = Checkpoints(tmp_path, CheckpointConfig(), print)
    assert not logger.filter(record("/x/orbax/checkpoint/a.py", logging.WARNING))
    assert logger.filter(record("/x/orbax/checkpoint/a.py", logging.ERROR))
    assert logger.filter(record("/x/mine/a.py", logging.WARNING))
    checkpoints.close()
    assert logger.filters == before


def test_wrong_saves_are_refused(opened, state):
    checkpoints, _ = opened()
    checkpoints.save(5, state, {})
    with pytest.raises(ValueError, match="checkpoint 4 would come after checkpoint 5"):
        checkpoints.save(4, state, {})
    with pytest.raises(ValueError, match="metric of checkpoint 6 is nan"):
        checkpoints.save(6, state, {}, float("nan"))
    with pytest.raises(ValueError, match="needs reference 1, which is not saved"):
        checkpoints.save(6, state, {}, reference=1)
    with pytest.raises(TypeError, match="JSON"):
        checkpoints.save(6, state, {"array": np.zeros(2)})


# Damage ------------------------------------------------------------------------------------------


def big_file(folder):
    return max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)


DAMAGE = {
    "truncated array": (big_file, lambda b: b[: len(b) // 2], "bytes instead of"),
    "emptied array": (big_file, lambda b: b"", "has 0 bytes"),
    "missing array": (big_file, None, "is missing"),
    "flipped bit": (big_file, lambda b: b[:-9] + bytes([b[-9] ^ 4]) + b[-8:], "not what was"),
    "truncated json": (lambda f: f / "host/metadata", lambda b: b[:-5], "host/metadata has"),
    "edited json": (lambda f: f / "host/metadata", lambda b: b.replace(b"1", b"2"), "not what was"),
    "lost key": (
        lambda f: f / "host/metadata",
        lambda b: b.replace(b"metric", b"metrid"),
        "what was",
    ),
    "tree metadata": (lambda f: f / "state/_METADATA", None, "_METADATA is missing"),
    "list": (lambda f: f / "files.json", lambda b: b[:9], "files.json cannot be read"),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_newest_falls_back_and_says_so(opened, state, tmp_path, how, capfd):
    first, _ = opened()
    first.save(110, state, {"x": 0})
    first.save(120, plus(state, 1), {"x": 1})
    first.close()
    pick, change, reason = DAMAGE[how]
    path = pick(tmp_path / "run/checkpoints/120")
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    second, notes = opened()
    found = second.restore(state)
    assert found.index == 110 and found.host == {"x": 0} and same_bits(found.state, state)
    [note] = notes
    assert note.startswith("checkpoint 120 is damaged (") and reason in note
    assert note.endswith("; continuing from 110") and "\n" not in note
    assert on_disk(tmp_path / "run/checkpoints") == [110]
    assert on_disk(tmp_path / "run/damaged") == [120]
    assert second.save(120, plus(state, 2), {"x": 2})  # the same index again, and it counts
    second.close()
    assert opened()[0].restore(state).host == {"x": 2}
    assert capfd.readouterr() == ("", "")


def test_all_damaged_starts_from_the_beginning(opened, state, tmp_path):
    first, _ = opened()
    for index in (1, 2):
        first.save(index, state, {})
    first.close()
    for index in (1, 2):
        big_file(tmp_path / f"run/checkpoints/{index}").unlink()
    second, notes = opened()
    assert second.restore(state) is None
    assert [n.split("; ")[1] for n in notes] == ["continuing from 1", "starting from the beginning"]


def test_a_failed_write_is_reported_by_the_next_call(opened, state, tmp_path, monkeypatch):
    checkpoints, _ = opened()
    checkpoints.save(1, state, {})
    checkpoints.wait()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rlvr_jax.store.write_durably", full)
        checkpoints.save(2, state, {})
        with pytest.raises(OSError, match="No space left"):
            checkpoints.wait()
    assert on_disk(tmp_path / "run/checkpoints") == [1]
    assert checkpoints.restore(state).index == 1


def test_another_structure_is_refused_by_name(opened, state, tmp_path):
    first, _ = opened()
    first.save(1, state, {})
    first.wait()
    params = dict(state.params)
    params["head"] = params.pop("embed")
    params["final_norm"] = params["final_norm"].astype(jnp.bfloat16)
    with pytest.raises(ValueError) as error:
        first.restore(dataclasses.replace(state, params=params))
    text = str(error.value)
    assert "missing in the checkpoint: params/head bfloat16[24,16]" in text
    assert "only in the checkpoint: params/embed bfloat16[24,16]" in text
    assert "params/final_norm is float32[16] there and bfloat16[16] here" in text
    assert on_disk(tmp_path / "run/checkpoints") == [1]  # nothing is thrown away for it


def test_long_differences_are_cut():
    with pytest.raises(ValueError, match=r"and 22 more"):
        compare({}, {f"layer{i}": "float32[2]" for i in range(30)}, "x")


# References --------------------------------------------------------------------------------------


def test_a_reference_lives_as_long_as_a_checkpoint_needs_it(opened, state, tmp_path):
    checkpoints, _ = opened(keep=2, keep_best=0)
    frozen = jax.tree.map(jnp.copy, state.params)
    versions = tmp_path / "run/references"
    checkpoints.save_reference(0, frozen)
    checkpoints.save(1, state, {}, reference=0)
    checkpoints.save_reference(1, state.params)
    for index in (2, 3):
        checkpoints.save(index, state, {}, reference=1)
        checkpoints.wait()
        assert on_disk(versions) == [0, 1]  # when 3 began, 1 still stood and needed 0
    checkpoints.save(4, state, {}, reference=1)
    assert on_disk(versions) == [1]
    assert same_bits(checkpoints.restore_reference(1, frozen), state.params)
    with pytest.raises(ValueError, match="reference 0 in .*: it is missing"):
        checkpoints.restore_reference(0, frozen)


def test_a_reference_of_a_future_that_was_lost_is_dropped(opened, state, tmp_path):
    first, _ = opened()
    first.save_reference(0, state.params)
    first.save(1, state, {}, reference=0)
    first.save_reference(1, state.params)  # killed before the checkpoint that would use it
    first.close()
    second, _ = opened()
    assert second.restore(state).reference == 0
    assert on_disk(tmp_path / "run/references") == [0]


def test_a_checkpoint_whose_reference_is_damaged_is_damaged(opened, state, tmp_path):
    first, _ = opened()
    first.save_reference(0, state.params)
    first.save(1, state, {}, reference=0)
    first.save_reference(1, state.params)
    first.save(2, state, {}, reference=1)
    first.close()
    big_file(tmp_path / "run/references/1").unlink()
    second, notes = opened()
    assert second.restore(state).index == 1
    assert "checkpoint 2 is damaged (its reference 1: state/" in notes[0]
    assert on_disk(tmp_path / "run/references") == [0]


# Kill --------------------------------------------------------------------------------------------

CHILD = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from rlvr_jax.checkpoint import CheckpointConfig, Checkpoints
checkpoints = Checkpoints(sys.argv[1], CheckpointConfig(keep=2), print)
place = NamedSharding(Mesh(np.array(jax.devices()), ("all",)), PartitionSpec())
def state(index):
    return {"w": jax.device_put(np.full((256, 128), index, np.float32), place),
            "b": jax.device_put(np.arange(index, index + 9, dtype=np.int32), place)}
found = checkpoints.restore(state(0))
start = 0
if found:
    start = found.index
    assert found.host == {"i": start}
    assert all(np.array_equal(found.state[k], v) for k, v in state(start).items())
print("at", start, flush=True)
for index in range(start + 1, start + 2000):
    checkpoints.save(index, state(index), {"i": index})
    print("saving", index, flush=True)
"""


def test_sigkill_at_any_moment_of_a_save_loses_at_most_the_save_in_flight(tmp_path):
    """Runs are killed after random times between saves that follow each other without a pause."""
    rng, reached = np.random.default_rng(0), 0
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        begun = child.stdout.readline()
        assert begun.startswith("at "), child.communicate()  # a note of damage would come first
        assert int(begun.split()[1]) >= reached - 1
        while "saving" not in child.stdout.readline():
            pass
        time.sleep(rng.uniform(0.05, 0.5))
        child.send_signal(signal.SIGKILL)
        out, err = child.communicate()
        lines = [line for line in out.splitlines() if line.startswith("saving")]
        reached = max([reached, *(int(line.split()[1]) for line in lines)])
        assert err == ""  # Orbax is silent
    assert reached > 0 and not (tmp_path / "damaged").exists()


def test_a_half_written_folder_is_cleaned_up(opened, state, tmp_path):
    first, _ = opened()
    first.save(1, state, {})
    first.close()
    half = tmp_path / "run/checkpoints/7.orbax-checkpoint-tmp"
    half.mkdir()
    (half / "x").write_text(json.dumps({}))
    second, notes = opened()
    assert not half.exists()
    assert second.restore(state).index == 1 and notes == []
    second.save(2, state, {})
    second.wait()
    assert on_disk(tmp_path / "run/checkpoints") == [1, 2]
