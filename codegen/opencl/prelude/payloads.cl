// Prefetches through an address payload. A prefetch changes no result, so there is nothing that an emulated one does,
// and nothing that its payload holds.

#define PRELUDE_PAYLOAD_CREATE(name)                                                                                   \
  static inline int *name(long base, int width, int height, int pitch, int x, int y, int columns, int rows,            \
                          int blocks) {                                                                                \
    return 0;                                                                                                          \
  }

#define PRELUDE_PAYLOAD_SET(name) static inline void name(int *payload, int at) {}
#define PRELUDE_PAYLOAD_PREFETCH(name) static inline void name(int *payload, int x, int y, int cache) {}
