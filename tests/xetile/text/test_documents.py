"""``xt.parse`` reads what the documents on XeTile and XeGPU print: every example, as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xetile as xt
from tests.text_examples import Example, read_document

ALL = [pytest.param(example, id=f"{path.stem}: {name}")
       for path in sorted((Path(__file__).parent / "documents").glob("*.mlir"))
       for name, example in read_document(path).items()]


@pytest.mark.parametrize("example", ALL)
def test_examples(example: Example) -> None:
    """The example reads, and what is printed of it reads to the same."""
    module = xt.parse(example.text())
    assert str(xt.parse(str(module))) == str(module)


@pytest.mark.parametrize("example", [param for param in ALL if param.values[0].slips])
def test_slips_are_errors_that_say_so(example: Example) -> None:
    """As the document prints it, it is an error that says what is wrong and where."""
    with pytest.raises(xt.TextError, match=re.escape(example.slips[0][2])) as caught:
        xt.parse(example.text(mended=False))
    assert "  help: " in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line > 1
