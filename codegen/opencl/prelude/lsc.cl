// Loads, stores and prefetches of single elements with a cache hint, which says nothing where caches take no hints.

#define PRELUDE_LSC_LOAD(name, word, type)                                                                             \
  static inline type name(const global word *at, int offset, int cache) { return *at; }
#define PRELUDE_LSC_STORE(name, word, type)                                                                            \
  static inline void name(global word *at, int offset, type value, int cache) { *at = value; }
#define PRELUDE_LSC_PREFETCH(name, word, type)                                                                         \
  static inline void name(const global word *at, int offset, int cache) {}
