"""Executors and launching: NumPy, devices, eager mode, the launch cache.

From a kernel call, ``kernel[grid](A, B, C)``, to a launch:

1. ``jit/base.py``: the kernel finds its :class:`xetile.runtime.launch.BoundKernel` in its launch cache, or binds itself
to an executor
   (``executors.py``).
2. ``launch.py``: the bound kernel looks up its launch table (``launch_cache.py``) by the identity of the arrays. On a
   hit, go to 8.
3. It looks up the plan of the arguments' signature. On a hit, go to 7.
4. ``jit/base.py``: arguments and grid are checked. The executor copies host arrays to the device.
5. ``jit/base.py``: the compiled kernel is found in the cache; or the function is traced (``jit/kernel.py``,
   ``frontend/tracer.py``) and becomes a compiled kernel (``compiler/compiled.py``), whose stages are
   computed lazily.
6. The executor. In NumPy (``numpy_executor.py``) it runs the kernel and is done. On a device
   (``device_executor.py``) it builds: passes (``compiler/pipeline.py``), OpenCL C (``codegen/opencl``), the driver's
   program from disk or from its compiler (``codegen/runtime/program_source.py``, ``program_cache.py``). The result is a
   plan, which the table keeps.
7. ``launch_plan.py``: the arguments are packed: pointers and numbers go into the plan's template.
8. ``codegen/runtime/launcher.py``: dpctl's C interface, by ``native_interface.py``.

:mod:`xetile.runtime.launch_cache` lists what is cached on the way, and for how long.
"""
