"""Kernel viewer: one self-contained HTML page with the stages beside the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from xegpu.support.errors import TargetError, ToolError
from xegpu.support.files import writing
from xetile.compiler.pipeline import after
from xetile.compiler.viewer import layout_svg
from xetile.compiler.viewer.lines import Line, Source, Text, Viewable, machine_code, source_of, stages_of

_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 0; color: #222; background: #fff; }
header { padding: 8px 16px; background: #0b5394; color: #fff; } header h1 { font-size: 18px; margin: 0; }
main { display: flex; height: calc(100vh - 42px); }
#source { flex: 0 0 36%; overflow: auto; border-right: 1px solid #bbb; }
#right { flex: 1; overflow: auto; }
nav { position: sticky; top: 0; background: #eee; padding: 4px 8px; border-bottom: 1px solid #bbb; z-index: 1;
  display: flex; flex-wrap: wrap; }
nav a { margin-right: 10px; color: #0b5394; text-decoration: none; white-space: nowrap; }
nav a.on { font-weight: bold; color: #000; }
pre { margin: 0; font: 12px/1.45 ui-monospace, monospace; }
pre span { display: block; padding: 0 8px; min-height: 1.45em; white-space: pre; }
pre span i { display: inline-block; width: 4em; color: #999; font-style: normal; user-select: none; }
.linked { cursor: pointer; } .lit { background: #ffe9a8 !important; }
.new { background: #e6f5e6; } .hot { background: #fde8e0; }
section { display: none; } section.on { display: block; } section > p { margin: 6px 10px; color: #555; }
figure { display: inline-block; vertical-align: top; margin: 12px; } figcaption { font-size: 12px; margin-bottom: 4px; }
svg text { font: 10px sans-serif; text-anchor: middle; pointer-events: none; }
table { border-collapse: collapse; margin: 10px; } td, th { padding: 2px 8px; text-align: left; }
"""

_SCRIPT = """
const all = (q, from = document) => Array.from(from.querySelectorAll(q));
function open_(name) {
  all('section').forEach(s => s.classList.toggle('on', s.id === name));
  all('nav a').forEach(a => a.classList.toggle('on', a.hash === '#' + name));
}
function light(line, keep) {
  all('.lit').forEach(e => e.classList.remove('lit'));
  all('[data-line="' + line + '"]').forEach(e => e.classList.add('lit'));
  const other = keep.closest('#source') ? 'section.on' : '#source';
  const first = document.querySelector(other + ' [data-line="' + line + '"]');
  if (first) first.scrollIntoView({block: 'center'});
}
all('nav a').forEach(a => a.addEventListener('click', e => { e.preventDefault(); open_(a.hash.slice(1)); }));
all('[data-line]').forEach(e => e.addEventListener('click', () => light(e.dataset.line, e)));
open_(all('section')[0].id);
"""


@dataclass(frozen=True)
class View:
    """HTML page of a kernel; a notebook displays it, :meth:`save` writes it.

    Attributes:
        lowered: the kernel.
    """

    lowered: Viewable

    def __repr__(self) -> str:
        return f"<page of {self.lowered.name} for {self.lowered.target.name}; .save(\"page.html\") writes it>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html())}" style="width:100%; height:640px; border:1px solid #bbb">' \
               "</iframe>"

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Raises:
            ArgumentError: it cannot be written.
        """
        text = self.html()
        with writing(path):
            Path(path).write_text(text)

    def html(self) -> str:
        """HTML text of the page.

        Raises:
            XeError: the kernel cannot be lowered.
        """
        lowered = self.lowered
        file = lowered.location.positions[0].file
        stages = stages_of(lowered, file)
        source = source_of(lowered, (line.origin for text in stages for line in text.lines), lowered.location)
        sections = [(text.name, _stage(text, number)) for number, text in enumerate(stages)]
        sections += [("machine code", _machine_code(lowered)), ("maps", _maps(lowered))]
        title = f"{lowered.name} for {lowered.target.name}"
        links = "".join(f'<a href="#{_id(name)}">{escape(name)}</a>' for name, _ in sections)
        body = "".join(f'<section id="{_id(name)}">{content}</section>' for name, content in sections)
        return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
                f"<style>{_STYLE}</style></head><body><header><h1>{escape(title)}</h1></header><main>"
                f'<div id="source">{_source(source)}</div><div id="right"><nav>{links}</nav>{body}</div></main>'
                f"<script>{_SCRIPT}</script></body></html>\n")


def _id(name: str) -> str:
    return "s-" + name.lower().replace(" ", "-")


def _source(source: Source) -> str:
    lines = "".join(f'<span class="linked" data-line="{number}"><i>{number}</i>{escape(text)}</span>'
                    for number, text in enumerate(source.lines, source.first))
    return f"<nav>{escape(Path(source.file).name)}</nav><pre>{lines}</pre>"


def _stage(text: Text, number: int) -> str:
    new = sum(line.mark == "+" for line in text.lines)
    summary = f"{len(text.lines)} lines" + (f"; {new} are new (green), {text.removed} of the previous stage are removed"
                                         if new or text.removed else "")
    if text.name == "OpenCL C":
        summary = f"{len(text.lines)} lines; click a line to see its origin"
    return f"<p>{summary}</p>{_pre(text.lines)}"


def _pre(lines: Sequence[Line]) -> str:
    return "<pre>" + "".join(_line(line, number) for number, line in enumerate(lines, 1)) + "</pre>"


def _line(line: Line, number: int) -> str:
    classes = [name for name, on in (("linked", line.origin), ("new", line.mark == "+"), ("hot", line.mark == "hot"))
               if on]
    attributes = f' class="{" ".join(classes)}"' if classes else ""
    attributes += f' data-line="{line.origin}"' if line.origin else ""
    return f"<span{attributes}><i>{number}</i>{escape(line.text)}</span>"


def _machine_code(lowered: Viewable) -> str:
    try:
        report, assembly = lowered.report(), lowered.isa().kernels[lowered.emitted.name].asm
    except (ToolError, TargetError) as error:
        return f"<p>{escape(error.message)}. {escape(error.hint)}</p>"
    return f"{report.table()._repr_html_()}<p>the hot loop is red</p>{_pre(machine_code(assembly, '').lines)}"


def _maps(lowered: Viewable) -> str:
    recorded, distributed = (after(lowered.modules, name) for name in ("lower-supervector", "distribute-lanes"))
    found = [*(layout_svg.of_tiles(recorded) if recorded is not None else []),
             *(layout_svg.of_products(distributed) if distributed is not None else [])]
    return "".join(found) or "<p>no tile of this kernel is distributed to subgroups, and it multiplies no matrices</p>"
