"""The README and the pages of docs/: their code runs, and what they show of the program is what it prints."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import xetile as xt
from tests.conftest import unavailable

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def _update() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update", ROOT / "docs" / "update.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["update"] = module
    spec.loader.exec_module(module)
    return module


update = _update()


# Each of the README's products of element types is a program.
_TESTED = [pytest.param(page, marks=pytest.mark.unoptimised if page.stem == "README" else (), id=page.stem)
           for page in update.PAGES if page not in update.CATALOGUE]  # tests/test_errors.py has those


@pytest.mark.parametrize("page", _TESTED)
def test_the_code_runs_and_shows_what_the_page_says(page: Path) -> None:
    now = update.refresh(page)
    difference = update.difference(page.read_text(), now.text, page.name)
    assert not difference, f"run python docs/update.py\n{difference}"
    if now.left_out:
        unavailable("; ".join(now.left_out))


def test_a_changed_page_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n<!-- output -->\n```text\n3\n```\nend\n")
    assert update.refresh(page).text == page.read_text().replace("3", "2")


def test_a_block_that_fails_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nassert 1 > 2\n```\n")
    with pytest.raises(AssertionError):
        update.refresh(page)


def test_an_example_that_raises_nothing_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- raises -->\n```python\npass\n```\n")
    with pytest.raises(AssertionError, match="raises no XeError"):
        update.refresh(page)


def test_a_block_whose_tool_is_missing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- needs: ocloc -->\n```python\nassert False\n```\n<!-- output -->\n```text\nkept\n```\n")
    monkeypatch.setattr(update, "missing", lambda tool: f"{tool} is not there")
    now = update.refresh(page)
    assert now.text == page.read_text()
    assert now.left_out == ["page.md:3: ocloc is not there"]


def test_every_marked_block_is_known() -> None:
    known = {"output", "raises", "reads", "command", "provoked", "file", "run", "message", "stage", "access",
             "table", "needs", "without"}
    for page in update.PAGES:
        for line in page.read_text().splitlines():
            if mark := re.match(r"<!-- (\w+)", line):
                assert mark[1] in known, f"{page.name}: {line}"


REFERENCE = (ROOT / "docs" / "reference.md").read_text()


def test_every_public_name_is_in_the_reference() -> None:
    documented = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", REFERENCE))))
    assert not set(xt.__all__) - documented


@xt.kernel
def doubled(A):
    """A kernel, whose methods the reference names as ``kernel.method``."""


def _headings() -> Iterator[tuple[str, ast.FunctionDef | None]]:
    for heading in re.findall(r"^### (.*)$", REFERENCE, re.MULTILINE):
        for text in re.findall(r"`([^`]+)`", heading):
            name, bracket, _ = text.partition("(")
            definition = f"def {text.removeprefix('kernel.')}: ..." if bracket else ""
            function = ast.parse(definition).body[0] if definition else None
            yield name, function  # type: ignore[misc]


@pytest.mark.parametrize(("name", "documented"), list(_headings()), ids=[name for name, _ in _headings()])
def test_every_documented_function_is_there_with_its_parameters(name: str, documented: ast.FunctionDef | None) -> None:
    method = name.removeprefix("kernel.")
    assert method != name or name in xt.__all__
    if documented is None or name == "range":  # xt.range takes its bounds as Python's own does
        return
    actual = inspect.signature(getattr(xt, name) if method == name else getattr(doubled, method)).parameters
    arguments = documented.args
    any_number, any_name = ([found] if found else [] for found in (arguments.vararg, arguments.kwarg))
    assert [a.arg for a in (*arguments.args, *any_number, *arguments.kwonlyargs, *any_name)] == list(actual)
    for argument in arguments.kwonlyargs:
        assert actual[argument.arg].kind is inspect.Parameter.KEYWORD_ONLY


def test_every_public_function_has_a_heading() -> None:
    functions = {name for name in xt.__all__ if inspect.isfunction(getattr(xt, name))}
    assert not functions - {name for name, _ in _headings()}


def test_every_environment_variable_of_the_package_is_in_the_reference() -> None:
    used = {name for floor in ("xegpu", "codegen", "xetile") for file in (ROOT / floor).rglob("*.py")
            for name in re.findall(r"environ(?:\.get\(|\[)\"(\w+)\"", file.read_text())}
    assert used
    assert not {name for name in used if f"`{name}`" not in REFERENCE}


def test_the_pipeline_page_shows_every_stage() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text()
    from xetile.compiler.pipeline import PASSES

    for name, _ in PASSES:
        assert f"## {name}: " in page


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_the_readme_has_the_two_commands_as_typed() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert 'pip install -e ".[all]" && python examples/gemm.py' in lines
    assert 'pip install -e ".[all]" && pytest' in lines


def test_the_readme_names_every_extra() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    table = (ROOT / "README.md").read_text()
    assert all(f"| `{extra}` |" in table for extra in extras)


def test_the_tutorial_has_the_examples_kernel() -> None:
    """The tutorial explains the kernel that the example runs."""
    def steps(text: str) -> list[str]:
        source = text[text.index("def gemm("):].split("\n\n\n")[0].partition("```")[0]
        (function,) = ast.parse(source.replace("accumulator", "xt.f32")
                                .replace(", xt.f32=xt.f32", "")).body
        assert isinstance(function, ast.FunctionDef)
        return [ast.unparse(statement).replace("for k in", "for _ in") for statement in function.body]

    example = (ROOT / "examples" / "gemm.py").read_text()
    assert steps((ROOT / "docs" / "tutorial.md").read_text()) == steps(example)


def test_the_page_of_docstrings_has_every_name() -> None:
    """docs/api.md asks for the docstring of each public function and class, at the place where it is defined."""
    text = (ROOT / "docs" / "api.md").read_text()
    asked = re.findall(r"^::: (\S+)\n    options:\n      heading: xt\.(\w+)$", text, re.M)
    documented = {name: getattr(xt, name) for name in xt.__all__ if callable(getattr(xt, name))}
    assert {name: path for path, name in asked} == {
        name: f"{thing.__module__}.{thing.__qualname__}" for name, thing in documented.items()}
    assert all(inspect.getdoc(thing) for thing in documented.values())
