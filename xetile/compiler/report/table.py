"""Tables: rendering as plain text, HTML for notebooks, and rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import Any

Value = int | float | str | None


@dataclass(frozen=True)
class Row:
    """Row of a table: a label and a value for each column; a row without values is a heading.

    Attributes:
        label: the name of the fact.
        values: one for each column; None where there is none.
        form: how a number is written, as for ``format``.
        unit: the suffix of a number.
    """

    label: str
    values: tuple[Value, ...] = ()
    form: str = ",d"
    unit: str = ""

    def cells(self) -> list[str]:
        """Values as text."""
        return [self._cell(value) for value in self.values]

    def _cell(self, value: Value) -> str:
        if value is None:
            return "-"
        return value if isinstance(value, str) else f"{value:{self.form}}{self.unit}"

    def difference(self) -> str:
        """Difference of the second value from the first; empty for texts and equal values."""
        first, second = self.values if len(self.values) == 2 else (None, None)
        if not isinstance(first, (int, float)) or not isinstance(second, (int, float)) or first == second:
            return ""
        share = f" ({second / first - 1:+.0%})" if first else ""
        return f"{second - first:+{self.form}}{self.unit}{share}"


@dataclass(frozen=True)
class Table:
    """Table: rows under a title, with warnings above and notes below.

    Attributes:
        title: the first line.
        rows: the lines.
        columns: heads of the columns of values; none for a single column.
        warnings, notes: sentences.
    """

    title: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @staticmethod
    def side_by_side(title: str, columns: Sequence[str], tables: Sequence[Table]) -> Table:
        """Join tables of one column by their labels; of two, the last column has the difference."""
        rows = tuple(_joined_row(label, tables) for label in _labels(tables))
        heads = tuple(columns)
        if len(tables) == 2:
            rows = tuple(Row(row.label, (*row.cells(), row.difference())) if row.values else row for row in rows)
            heads = (*heads, "difference")
        warnings = tuple(f"{column}: {text}" for column, table in zip(columns, tables, strict=True)
                         for text in table.warnings)
        return Table(title, rows, heads, warnings, tuple(dict.fromkeys(n for table in tables for n in table.notes)))

    def __str__(self) -> str:
        lines_of_cells = [["", *self.columns], *([row.label, *row.cells()] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip_longest(*lines_of_cells, fillvalue="")]
        lines = [self._line(row.label, row.cells(), widths) for row in self.rows]
        head = [self._line("", list(self.columns), widths)] if self.columns else []
        return "\n".join([self.title, *(f"  ! {text}" for text in self.warnings), *head, *lines,
                          *(f"  * {text}" for text in self.notes)])

    @staticmethod
    def _line(label: str, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [label.ljust(widths[0]), *(cell.ljust(width) for cell, width in zip(cells, widths[1:], strict=False))]
        return ("  " + "  ".join(padded)).rstrip()

    def _repr_html_(self) -> str:
        """HTML for IPython's display protocol."""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("", *self.columns)) if self.columns else ""
        span = 1 + max((len(row.values) for row in self.rows), default=1)
        body = "".join(_html_row(row, span) for row in self.rows)
        return (f"<p><b>{escape(self.title)}</b></p>{_html_list(self.warnings, 'color: #b00020')}<table>"
                f"<tr>{head}</tr>{body}</table>{_html_list(self.notes, 'color: gray')}")

    def __rich__(self) -> Any:
        """Rich's rendering protocol."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        rich_table = RichTable(title=self.title, title_justify="left", show_header=bool(self.columns))
        for name in ("", *(self.columns or ("",))):
            rich_table.add_column(name, overflow="fold")
        for row in self.rows:
            rich_table.add_row(Text(row.label, "" if row.values else "bold"), *row.cells(), end_section=False)
        return Group(*(Text(f"! {text}", "bold red") for text in self.warnings), rich_table,
                     *(Text(f"* {text}", "dim") for text in self.notes))


def _labels(tables: Sequence[Table]) -> list[str]:
    """Labels of all tables, merged in order."""
    labels: list[str] = []
    for table in tables:
        at = 0
        for row in table.rows:
            if row.label not in labels:
                labels.insert(at, row.label)
            at = labels.index(row.label) + 1
    return labels


def _joined_row(label: str, tables: Sequence[Table]) -> Row:
    found = [next((row for row in table.rows if row.label == label), None) for table in tables]
    first = next(row for row in found if row is not None)
    if not first.values:
        return first
    return Row(label, tuple(row.values[0] if row else None for row in found), first.form, first.unit)


def _html_row(row: Row, span: int) -> str:
    if not row.values:
        return f"<tr><th colspan={span} style='text-align: left'>{escape(row.label)}</th></tr>"
    return f"<tr><td>{escape(row.label)}</td>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells()) + "</tr>"


def _html_list(texts: Iterable[str], style: str) -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul style='{style}'>{items}</ul>" if items else ""
