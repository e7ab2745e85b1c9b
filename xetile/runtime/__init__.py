"""Executors and launching: NumPy, devices, eager mode, the launch cache.

From a kernel call, ``kernel[grid](A, B, C)``, to a launch:

1. ``jit/base.py``: the kernel finds its :class:`BoundKernel` in its launch cache, or binds itself to an executor
   (``executors.py``).
2. ``launch.py``: the bound kernel asks its launch table (``launch_cache.py``) for a launch on these very arrays. If
   there is one, go to 8.
3. It asks the table for the plan of arguments of this signature. If there is one, go to 7.
4. ``jit/base.py``: arguments and grid are checked. The executor copies arrays of the host to where kernels reach them.
5. ``jit/base.py``: the compiled kernel is found in the cache; or the function is recorded (``jit/kernel.py``,
   ``frontend/tracer.py``) and becomes a compiled kernel (``compiler/compiled.py``), whose stages are made when they are
   asked for.
6. The executor. In NumPy (``numpy_executor.py``) it runs the kernel, and that is all. On a device
   (``device_executor.py``) it builds: passes (``compiler/pipeline.py``), OpenCL C (``codegen/opencl``), the driver's
   program from disk or from its compiler (``codegen/runtime/program_source.py``, ``program_cache.py``). The result is a
   plan, which the table keeps.
7. ``launch_plan.py``: pointers and numbers of the arguments are put into the plan's template.
8. ``codegen/runtime/launcher.py``: dpctl's ``submit_async``.

What is kept on this way, and for how long, is in :mod:`xetile.runtime.launch_cache`.
"""
