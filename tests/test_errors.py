"""Error catalogue: every code has a section, every section a code, and the messages that a section shows are given."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import xetile as xt
from tests import test_docs
from tests.conftest import unavailable
from xegpu.support.errors import Invalid, XeError
from xetile import errors
from xetile.tools.cli import main

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "xetile" / "errors"
update = test_docs.update


def _literals() -> Iterator[tuple[str, str]]:
    """Every code that the packages write down, with the file."""
    for package in ("xegpu", "codegen", "xetile"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "XT" in text else ():
                if isinstance(node, ast.Constant) and re.fullmatch(r"XT\d{4}", str(node.value)):
                    yield str(node.value), str(path)


def test_every_code_has_a_section_and_every_section_a_code() -> None:
    used = {code for code, _ in _literals()}
    assert used >= set(errors.explanations()), "these sections are of no error"
    assert used <= set(errors.explanations()), "these errors have no section"


def test_a_section_is_in_the_file_of_its_number() -> None:
    """In the order of the codes, each once."""
    found = [section.code for area in errors.areas() for section in area.explanations]
    assert found == sorted(set(found))
    for area in errors.areas():
        assert re.fullmatch(r"# [^\n]+\n\n", area.head), "a title and nothing else"
        assert area.explanations
        strangers = [section.code for section in area.explanations if not section.code.startswith(f"XT{area.number}")]
        assert not strangers, area.name


def test_a_code_is_in_the_form_of_one() -> None:
    for wrong in ("", "XT12", "the shapes differ"):
        with pytest.raises(TypeError, match="not an error code"):
            XeError(wrong, "a message")
        with pytest.raises(TypeError, match="not an error code"):
            Invalid(wrong, "a message")


@pytest.mark.parametrize(("area", "section"), [pytest.param(area, section, id=section.code)
                                              for area in errors.areas() for section in area.explanations])
def test_a_section(area: errors.Area, section: errors.Explanation) -> None:
    """Each section has a title, an explanation, and the message that its program raises."""
    assert re.match(r"## XT\d{4} [^\s#][^\n]{3,90}[^.\n]\n\n[^\n<#]{20}", section.text), "a title, then an explanation"
    assert section.text.count("<!-- message -->") >= 1
    now = update.refresh_section(section, FOLDER / f"{area.name}.md")
    difference = update.difference(section.text, now.text, section.code)
    assert not difference, f"run python docs/update.py {section.code}\n{difference}"
    if now.left_out:
        unavailable("; ".join(now.left_out))


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    listed = capsys.readouterr().out
    for section in errors.explanations().values():
        assert f"- {section.code} {section.title}\n" in listed
    for said in ("XT8001", "[xt8001]", "8001"):
        assert main(["explain", said]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith("# XT8001 No error has this code\n")
        assert "<!--" not in shown


def _lines(kernel: xt.Kernel) -> list[int]:
    """Lines of the notes of a kernel's error, counted from the error's own."""
    with pytest.raises(xt.XeError) as caught:
        kernel.lower(xt.Spec((None, None), "f32"))
    assert caught.value.location is not None
    return [note.location.line - caught.value.location.line for note in caught.value.notes]


def test_notes_follow_a_value_into_loops_and_conditions() -> None:
    """A loop-carried value was made before the loop, although the body that is being recorded has it as an argument."""
    @xt.kernel
    def carried(A):
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(3):
            for _ in xt.range(A.shape[0]):
                total = total + xt.load_tile(xt.init_tile(A, (0, 0), (8, 8)))

    @xt.kernel
    def changed(A):
        total = xt.zeros((8, 16), xt.f32)
        for _ in xt.range(3):
            with xt.when(A.shape[0] > 8):
                total = total.to(xt.f16)
        xt.store_tile(total, xt.init_tile(A, (0, 0), (8, 16)))

    @xt.kernel(subgroups=(2, 1))
    def barred(A):
        first = xt.subgroup_id() == 0
        with xt.when(first):
            xt.fence()
            xt.barrier()

    assert _lines(carried) == [-3]
    assert _lines(changed) == [-2, 1]
    assert _lines(barred) == [-2, -3]


def test_notes_name_the_other_party() -> None:
    """A product's operands are made on other lines: the error points there, too."""
    @xt.kernel
    def product(A, C):
        a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 16)))
        b = xt.load_tile(xt.init_tile(A, (0, 0), (32, 32)))
        xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (0, 0), (32, 32)))

    with pytest.raises(xt.ShapeError) as caught:
        product.lower(xt.Spec((None, None), "bf16"), xt.Spec((None, None), "f32"))
    location = caught.value.location
    assert location is not None
    assert [note.location.line - location.line for note in caught.value.notes] == [-2, -1]
    said = str(caught.value).splitlines()
    assert "  note: A is a vector of 32x16 bf16, made here" in said
    assert said[said.index("  note: A is a vector of 32x16 bf16, made here") + 2].endswith(
        "a = xt.load_tile(xt.init_tile(A, (0, 0), (32, 16)))")


def test_titles_give_one_anchor_everywhere() -> None:
    """The site and other readers of Markdown make anchors of headings in ways that differ in what they leave out."""
    for section in errors.explanations().values():
        anchor = re.sub(r"[^\w\- ]", "", f"{section.code} {section.title}".lower()).replace(" ", "-")
        assert "--" not in anchor, section.title
        assert not anchor.endswith("-"), section.title
