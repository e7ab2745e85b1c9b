"""PyTorch: tensors as arguments, kernels as operators that torch.compile keeps, and products with derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt

torch: Any = pytest.importorskip("torch")


@xt.kernel
def scaled(A: Any, C: Any, n: Any, *, factor: int = 2) -> None:
    row = xt.group_id(0) * 8
    xt.store_tile(xt.load_tile(xt.init_tile(A, (row, 0), (8, 16))) * factor, xt.init_tile(C, (row, 0), (8, 16)))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu", "numpy:program", None])
def test_tensors_are_arguments(where: str | None, dtype: str) -> None:
    a = torch.randint(-9, 9, (21, 35), generator=torch.manual_seed(3)).to(getattr(torch, dtype))[:, 2:18]
    c = torch.full((16, 21), 5).to(a.dtype).T
    bound = scaled if where is None else scaled.on(where)
    bound[3](a, c, 1)
    assert torch.equal(c, 2 * a)


def test_the_library_takes_tensors() -> None:
    a, b = (torch.randint(-4, 5, shape).to(torch.bfloat16) for shape in ((17, 33), (33, 9)))
    c = torch.zeros(17, 9, dtype=torch.bfloat16)
    assert xt.matmul(a, b, out=c) is c
    assert torch.equal(c, a @ b)
    assert np.array_equal(xt.matmul(a.float(), b.float()), (a.float() @ b.float()).numpy())


def test_gradients_are_not_exported() -> None:
    with pytest.raises(xt.ArgumentError, match=r"XT1091.*A does not export") as caught:
        scaled[1](torch.ones(8, 16, requires_grad=True), torch.zeros(8, 16), 1)
    assert "A.detach()" in caught.value.hint


def test_memory_with_the_other_sign_is_not_exported() -> None:
    imaginary = torch.complex(torch.ones(8, 16), torch.ones(8, 16)).conj().imag  # -1, where its memory holds 1
    with pytest.raises(xt.ArgumentError, match=r"XT1091.*other sign") as caught:
        scaled[1](imaginary, torch.zeros(8, 16), 1)
    assert "A.resolve_neg()" in caught.value.hint


def test_the_element_of_a_tensor_without_dimensions() -> None:
    @xt.kernel
    def times(A, s, C, *, element):
        factor = xt.load_scalar(s, ()) if element else s
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))) * factor, xt.init_tile(C, (0, 0), (8, 16)))

    a, three, c = torch.ones(8, 16), torch.tensor(3.0), torch.zeros(8, 16)
    with pytest.raises(xt.ElementTypeError, match="XT1201") as caught:
        times[1](a, three, c, element=False)
    assert "xt.load_scalar(s, ())" in caught.value.hint
    assert "s.item()" in caught.value.hint
    times[1](a, three, c, element=True)
    times[1](c, three.item(), c.clone(), element=False)
    assert (c == 3).all()


def test_an_expanded_tensor_is_no_output() -> None:
    row = torch.zeros(1, 16)
    with pytest.raises(xt.ArgumentError, match=r"XT1039.*writes C"):
        scaled[1](torch.ones(8, 16), row.expand(8, 16), 1)
    assert not row.any()


def test_a_kernel_is_an_operator_that_compiled_programs_call() -> None:
    from xetile.torch import register

    register(scaled, "xetile_test::scaled", outputs=("C",), numbers={"n": int}, factor=3)

    def program(a: Any) -> Any:
        c = torch.zeros_like(a)
        torch.ops.xetile_test.scaled([2], a + 1, c, 4)
        return c - 1

    a = torch.arange(256.0).reshape(16, 16)
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    assert torch.equal(program(a), 3 * (a + 1) - 1)
    assert torch.equal(torch.compile(program, backend=backend, fullgraph=True)(a), 3 * (a + 1) - 1)
    assert len(graphs) == 1
    assert "xetile_test.scaled" in graphs[0].code
    assert torch.equal(torch.compile(program, backend="aot_eager", fullgraph=True)(a), 3 * (a + 1) - 1)
    torch.library.opcheck(torch.ops.xetile_test.scaled.default, ([2], a, torch.zeros(16, 16), 1))


def test_outputs_of_an_operator_are_all_named() -> None:
    from xetile.torch import register

    with pytest.raises(xt.ArgumentError, match="XT1092"):
        register(scaled, "xetile_test::unknown", outputs=("D",))
    operator = register(scaled, "xetile_test::silent", outputs=("A",), numbers={"n": int})
    with pytest.raises(xt.ArgumentError, match=r"XT1093.*writes C"):
        operator([1], torch.ones(8, 16), torch.ones(8, 16), 1)


@pytest.mark.parametrize(("left", "right"), [
    ((7, 5), (5, 3)), ((5,), (5, 3)), ((7, 5), (5,)), ((5,), (5,)), ((4, 7, 5), (5, 3)), ((2, 1, 7, 5), (3, 5, 4))])
def test_a_product_with_derivatives(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    from xetile.torch import matmul

    torch.manual_seed(1)
    ours = [torch.randint(-4, 5, shape).float().requires_grad_() for shape in (left, right)]
    theirs = [each.detach().clone().requires_grad_() for each in ours]
    for product, operands in ((matmul, ours), (torch.matmul, theirs)):
        (product(*operands) ** 2).sum().backward()
    assert torch.equal(matmul(*ours), theirs[0] @ theirs[1])
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(ours, theirs, strict=True))
    compiled = torch.compile(matmul, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*ours), theirs[0] @ theirs[1])
