"""`make` alone explains; `make install` installs and trains nothing."""

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


def make(*arguments):
    if not shutil.which("make"):
        pytest.skip("there is no make on this machine")
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_make_alone_lists_every_target():
    listed = re.findall(r"^make (\w+) ", make(), re.MULTILINE)
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert {"help", *listed} == set(phony.split()) and "install" in listed


def test_install_trains_nothing(tmp_path):
    steps = make("-n", "install", f"VENV={tmp_path}/venv")
    assert "pip install" in steps and "bin/rlvr" not in steps and "-m pytest" not in steps
