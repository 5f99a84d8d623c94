"""The rule table: every leaf has a rule, what does not divide is named, meshes add up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from tiny_models import EVERYTHING

from rlvr_jax.models import transformer as tf
from rlvr_jax.models.value_head import init_value_head
from rlvr_jax.sharding import (
    MeshConfig,
    batch_shards,
    constrain,
    leaf_spec,
    make_mesh,
    path_name,
    put_batch,
    tree_shardings,
)


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        (MeshConfig(), (1, 8, 1)),
        (MeshConfig(data=2, fsdp=2, tensor=2), (2, 2, 2)),
        (MeshConfig(data=-1, fsdp=2, tensor=1), (4, 2, 1)),
    ],
)
def test_meshes_use_every_device(config, shape):
    mesh = make_mesh(config)
    assert tuple(mesh.shape.values()) == shape
    assert batch_shards(mesh) == shape[0] * shape[1]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (MeshConfig(3, 1, 1), "3 x 1 x 1 does not use the 8 devices"),
        (MeshConfig(3, -1, 1), "3 x -1 x 1: 3 does not divide the number of devices, 8"),
        (MeshConfig(-1, -1, 1), "at most one of them -1"),
        (MeshConfig(0, 1, 8), "positive"),
    ],
)
def test_impossible_meshes_are_refused(config, said):
    with pytest.raises(ValueError, match=said):
        make_mesh(config)


def shapes():
    def build():
        params = tf.init(EVERYTHING, jax.random.key(0))
        return params | {"value_head": init_value_head(EVERYTHING)}

    return jax.eval_shape(build)


def test_every_parameter_of_a_model_with_everything_has_a_rule():
    tree = shapes()
    specs = {path_name(p): leaf_spec(p, x) for p, x in jax.tree_util.tree_leaves_with_path(tree)}
    assert specs["layers/q"] == P(None, "fsdp", "tensor")
    assert specs["layers/down"] == P(None, "tensor", "fsdp")
    assert specs["embed"] == specs["head"] == P("tensor", "fsdp")
    split = [n for n, s in specs.items() if any(s)]
    for name, leaf in jax.tree_util.tree_leaves_with_path(tree):
        assert len(leaf_spec(name, leaf)) <= leaf.ndim
        if leaf.ndim > 1 and "norm" not in path_name(name) and "o_bias" not in path_name(name):
            assert path_name(name) in split


def test_optimizer_state_inherits_by_the_end_of_the_path():
    tree = {"opt": [{"mu": shapes(), "count": jax.ShapeDtypeStruct((), jnp.int32)}]}
    found = tree_shardings(tree, make_mesh(MeshConfig(2, 2, 2)))
    plain = tree_shardings(shapes(), make_mesh(MeshConfig(2, 2, 2)))
    assert jax.tree.leaves(found["opt"][0]["mu"]) == jax.tree.leaves(plain)
    assert found["opt"][0]["count"].spec == P()


def test_a_leaf_without_a_rule_is_named():
    with pytest.raises(ValueError, match='no sharding rule matches "layers/strange"'):
        tree_shardings({"layers": {"strange": jnp.zeros((2, 2))}}, make_mesh(MeshConfig()))


def test_a_leaf_that_does_not_divide_is_named():
    with pytest.raises(ValueError, match='"embed" .* mesh axis "tensor" of size 2: 7 is not'):
        tree_shardings({"embed": jnp.zeros((7, 8))}, make_mesh(MeshConfig(2, 2, 2)))


def test_batches_are_split_over_their_first_dimension():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    array = np.arange(24.0).reshape(8, 3)
    placed = put_batch({"x": array}, mesh)["x"]
    np.testing.assert_array_equal(placed, array)
    assert {s.data.shape for s in placed.addressable_shards} == {(2, 3)}
    assert len({str(s.index) for s in placed.addressable_shards}) == 4


def test_activations_are_pinned_where_they_divide():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    run = jax.jit(lambda x: constrain(x, mesh, "batch", None, "heads"))
    assert run(jnp.ones((4, 3, 2))).sharding.spec == P(("data", "fsdp"), None, "tensor")
    odd = run(jnp.ones((4, 3, 3)))  # three heads cannot be split over two devices
    assert {s.data.shape for s in odd.addressable_shards} == {(1, 3, 3)}
    x = jnp.ones(3)
    assert constrain(x, None, "batch") is x
