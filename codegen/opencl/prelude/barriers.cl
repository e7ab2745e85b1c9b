// The split work-group barrier (cl_intel_split_work_group_barrier), as one whole barrier.
//
// What a kernel may rely on is that memory accesses before an arrive come before those after the matching wait. The
// barrier stands at the wait: what runs between the two is then on the near side of it, so that it too is finished
// everywhere before anything after the wait begins. With the barrier at the arrive, accesses between arrive and wait
// would run beside those after it, and a CPU would show the races that a GPU's timing hides. The arrive keeps its half
// of the meaning, a release. The barrier orders both memories whatever the flags say: arrive and wait may name
// different ones.

#define PRELUDE_INLINE static inline __attribute__((overloadable, always_inline))

#define PRELUDE_BARRIER_ARRIVE                                                                                         \
  PRELUDE_INLINE void intel_work_group_barrier_arrive(cl_mem_fence_flags flags, memory_scope scope) {                  \
    atomic_work_item_fence(flags, memory_order_release, scope);                                                        \
  }                                                                                                                    \
  PRELUDE_INLINE void intel_work_group_barrier_arrive(cl_mem_fence_flags flags) {                                      \
    intel_work_group_barrier_arrive(flags, memory_scope_work_group);                                                   \
  }

#define PRELUDE_BARRIER_WAIT                                                                                           \
  PRELUDE_INLINE void intel_work_group_barrier_wait(cl_mem_fence_flags flags, memory_scope scope) {                    \
    work_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE, scope);                                             \
  }                                                                                                                    \
  PRELUDE_INLINE void intel_work_group_barrier_wait(cl_mem_fence_flags flags) {                                        \
    intel_work_group_barrier_wait(flags, memory_scope_work_group);                                                     \
  }
