import json
import pathlib

import pytest


@pytest.fixture(scope="session")
def vectors():
    root = pathlib.Path(__file__).resolve().parents[2]
    path = root / ".." / "shared" / "spec" / "algorithms_vectors.json"
    if not path.exists():
        pytest.skip("the worked examples of the specification are not beside the repository")
    return json.loads(path.read_text())
