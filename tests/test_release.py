"""What is released: a wheel and a source distribution that build to the same bytes anywhere and hold what
they should; a Dockerfile and a conda recipe that ask for what the package asks for."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

import rapidbm
from rapidbm.errors import EXTRAS, InputError, require

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
(HATCHLING,) = PYPROJECT["build-system"]["requires"]
NAME = f"rapidbm-{rapidbm.__version__}"
WHEEL, SDIST = f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"


def build(source, out, *, umask=0o022, zone="UTC", hashes="0"):
    """Both, straight from a tree."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(out)],
        cwd=source,
        env={**os.environ, "TZ": zone, "PYTHONHASHSEED": hashes},
        umask=umask,
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("dist")
    build(ROOT, out)
    return out


def test_the_released_sources_build_to_the_same_bytes_elsewhere(built, tmp_path):
    with tarfile.open(built / SDIST) as packed:
        packed.extractall(tmp_path, filter="data")
    for path in tmp_path.rglob("*"):  # files of another day and of another person's modes
        os.utime(path, (1e9, 1e9))
        path.chmod(path.stat().st_mode & 0o700)
    again = tmp_path / "again"
    build(tmp_path / NAME, again, umask=0o077, zone="Asia/Tokyo", hashes="1")
    for name in (WHEEL, SDIST):
        assert (again / name).read_bytes() == (built / name).read_bytes(), name


def test_the_wheel_holds_the_package_and_nothing_else(built):
    packages = [
        ROOT / name for name in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ]
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for package in packages
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {path.parent for path in (ROOT / "src").glob("*/__init__.py")} == {*packages}
    for name in ("py.typed", "__init__.pyi", "runs/pretrained/mnist.safetensors"):
        assert f"rapidbm/{name}" in wanted
    assert {"rapidbm_paper/py.typed", "rapidbm_paper/report.html"} <= wanted
    with zipfile.ZipFile(built / WHEEL) as wheel:
        found = set(wheel.namelist())
        described = Parser().parsestr(wheel.read(f"{NAME}.dist-info/METADATA").decode())
        assert wheel.read(f"{NAME}.dist-info/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    about = {"METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE", "RECORD"}
    assert found == wanted | {f"{NAME}.dist-info/{name}" for name in about}
    assert described["License-Expression"] == "MIT"
    assert described["Version"] == rapidbm.__version__


def test_the_sources_hold_what_the_suite_needs(built):
    with tarfile.open(built / SDIST) as packed:
        names = {name.removeprefix(f"{NAME}/") for name in packed.getnames()}
    for name in ("Makefile", "constraints.txt", "LICENSE", "Dockerfile", "conda/recipe.yaml", ".ci/run"):
        assert name in names
    for folder in ("tests", "docs", "benchmarks", "mutants"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
        tree = {
            path.relative_to(ROOT).as_posix() for path in files if path.suffix in (".py", ".md", ".json")
        }
        assert tree <= names
    assert not [name for name in names if name.endswith(".pyc") or name.startswith(("dist", ".venv"))]


def test_twine_finds_no_fault(built):
    command = [sys.executable, "-m", "twine", "check", "--strict", built / WHEEL, built / SDIST]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {rapidbm.__version__}\n" in text
    assert f"\n## {rapidbm.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    least = recipe["context"]["python_min"]
    assert recipe["context"]["version"] == rapidbm.__version__
    assert f">={least}" == PROJECT["requires-python"]
    called = {"torch": "pytorch", "matplotlib": "matplotlib-base"}  # there
    wanted = [re.fullmatch(r"([\w-]+)(>=\S+)", words).groups() for words in PROJECT["dependencies"]]
    python, *run = recipe["requirements"]["run"]
    assert run == [f"{called.get(name, name)} {version}" for name, version in wanted]
    assert python == "python >=${{ python_min }}"
    assert recipe["requirements"]["host"][2:] == [HATCHLING.replace(">", " >")]
    (point,) = recipe["build"]["python"]["entry_points"]
    assert point == f"rapidbm = {PROJECT['scripts']['rapidbm']}"
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]


def test_the_container_is_built_from_what_it_copies_and_runs_as_nobody_special():
    text = (ROOT / "Dockerfile").read_text()
    steps = text.replace("\\\n", "").splitlines()
    version = re.search(r"ARG PYTHON=(\S+)", text)[1]
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    copied = {name for line in steps if line.startswith("COPY ") for name in line.split()[1:-1]}
    given = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    assert copied - {"--from=build", "/wheels/*.whl"} == given
    assert all((ROOT / name).exists() for name in given)
    assert {*PROJECT["license-files"], PROJECT["readme"], "src", "pyproject.toml"} <= given
    installs = [line for line in steps if "pip install" in line]
    assert len(installs) == 3
    assert all("--constraint" in line and "constraints.txt" in line for line in installs)
    assert installs[1].endswith(" torch")  # a build of its own; the wheel asks for the rest
    assert steps.index("USER 1000") < steps.index('ENTRYPOINT ["rapidbm"]')


def test_constraints_name_every_direct_dependency_once():
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x[0] != "#"]
    names = [line.partition("==")[0].lower().replace("_", "-") for line in lines]
    assert len(names) == len(set(names))
    extras = PROJECT["optional-dependencies"]
    asked = [words for name in extras if name != "bench" for words in extras[name]]
    asked += [*PROJECT["dependencies"], HATCHLING]
    direct = {re.match(r"[\w-]+", words)[0] for words in asked} - {"rapidbm"}
    assert direct <= set(names)


def test_extras_are_those_of_the_project():
    extras = dict(PROJECT["optional-dependencies"])
    for aside in ("dev", "docs"):  # they serve no call
        del extras[aside]
    asked = {(re.match(r"[\w-]+", words)[0], name) for name in extras for words in extras[name]}
    called = {"Bio": "biopython"}  # modules whose package has another name
    known = {(called.get(name, name.replace(".", "-")), extra) for name, extra in EXTRAS.items()}
    assert known == asked


@pytest.mark.parametrize("module", EXTRAS)
def test_a_module_that_is_not_there_is_asked_for_by_the_line_that_installs_it(monkeypatch, module):
    line = re.escape(f"pip install 'rapidbm[{EXTRAS[module]}]'")
    for name in {module, module.partition(".")[0]}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=f"^drawing needs {module}, which is not installed: {line}$"):
        require(module, "drawing")


def test_a_file_that_needs_an_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "x.h5").touch()
    with pytest.raises(InputError, match=r"reading .*x.h5 needs h5py.*rapidbm\[hdf5\]"):
        rapidbm.load(str(tmp_path / "x.h5"))


def test_extras_are_imported_where_they_are_used():
    roots = {module.partition(".")[0] for module in EXTRAS}
    package = Path(rapidbm.__file__).parent
    # Modules that are nothing but their extra's, and loaded once it is known to be there.
    wholly = {package / "studio" / name for name in ("app.py", "connections.py", "guard.py", "serve.py")}
    wholly |= {package / "data" / "reading" / f"{name}.py" for name in ("hdf5", "parquet", "zarr_store")}
    for path in {*package.rglob("*.py")} - wholly:
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not roots & {name.partition(".")[0] for name in names}, path
