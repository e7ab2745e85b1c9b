"""MLIR text to modules: index of the files that parse each operation's syntax.

One spelling is printed, and others are read:

- ``assembly_format`` of its class in ``xetile/dialect`` and ``xegpu/dialect`` is what every stage prints. Operations
  without a rule here are read by it too. Operands and syntax that operations of both dialects share are declared by one
  base class: ``DescribedOp``, ``MultiplyAddOp``, ``ScaledMultiplyAddOp``, ``UnaryVectorOp``.
- The ``RULES`` of this package read the spellings of the documents (operands without brackets, types behind ``into``,
  hints as words, maps without names) *and* the printed one; ``grammar`` makes a tree of a line, and the family's rule
  an operation of the tree (``xetile_ops``, ``xegpu_ops``, ``vector``, ``other_dialects``). Loads, stores and
  prefetches have one rule: names of operands and properties, and whether there is a result, are those of the class.
- XeGPU version 1 has the same grammar and the same rules. Its operations of the same form are derived from the present
  classes (``SAME_FORM`` in ``xegpu/interop/v1/dialect``); only ``load_nd``, ``dpas`` and ``mfence`` are declared there.
- LLVM's form (``xegpu/interop/llvm``) is another grammar, with constant offsets in the brackets and properties in
  ``<{...}>``: its operations parse and print themselves, and share the checks of the present ones.
"""
