"""The three ways to set up agree: environment.yml, constraints.txt and pyproject.toml."""

import re
import shlex
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    pin.name: pin.specifier
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
    for pin in [Requirement(line)]
}


def pip_arguments() -> list[str]:
    """What conda hands to pip, as the arguments of `pip install`."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip_part,) = [part for part in environment["dependencies"] if isinstance(part, dict)]
    return [argument for line in pip_part["pip"] for argument in shlex.split(line)]


def declared() -> dict[str, Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    lines = [*PROJECT["dependencies"], *[line for extra in extras for line in extra]]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def test_conda_asks_pip_for_nothing_that_the_project_does_not_declare():
    options = {"-c", "-e", "constraints.txt"}
    (project,) = [argument for argument in pip_arguments() if argument not in options]
    path, extras = re.fullmatch(r"(.*)\[(.*)\]", project).groups()

    assert path == "."
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_conda_has_pip_install_what_make_does():
    arguments = " ".join(pip_arguments())
    assert f"pip install {arguments} \\\n" in (ROOT / "Makefile").read_text().replace("'", "")


def test_every_declared_package_is_pinned_to_one_version_within_its_range():
    for name, requirement in declared().items():
        (pin,) = PINS[name]
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version)


def test_torch_is_pinned_for_the_checks_and_open_for_users():
    assert str(PINS["torch"]).startswith("==")
    assert {part.operator for part in declared()["torch"].specifier} == {">="}
