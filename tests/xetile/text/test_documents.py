"""``xt.parse`` reads what the documents on XeTile and XeGPU print: every example, as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

import xetile as xt
from tests.text_examples import Example, read_document

EXAMPLES = {f"{path.stem}: {name}": example
            for path in sorted((Path(__file__).parent / "documents").glob("*.mlir"))
            for name, example in read_document(path).items()}
SLIPS = [pytest.param(example, count, id=f"{name}-{count}") for name, example in EXAMPLES.items()
         for count in range(len(example.slips))]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_examples(example: Example) -> None:
    """The example reads, and what is printed of it reads to the same."""
    module = xt.parse(example.text())
    assert str(xt.parse(str(module))) == str(module)


@pytest.mark.parametrize(("example", "count"), SLIPS)
def test_slips_are_errors(example: Example, count: int) -> None:
    """Each slip, those before it corrected, is an error with a hint, at its line."""
    with pytest.raises(xt.TextError) as caught:
        xt.parse(example.text(corrected=count))
    assert caught.value.code == example.slips[count][2]
    assert "  help: " in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line > 1
