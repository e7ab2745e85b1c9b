// Unified shared memory: every allocation lies in one mapping, which the executor's process maps at the same address.
#pragma once

#include "level_zero.h"

#include <string>

struct Mapping {
    int file;           // file descriptor, inherited by the executor
    uintptr_t address;
    size_t size;
};
const Mapping &device_memory();

// Whether an address lies in an allocation.
bool is_allocated(uintptr_t address);

// A line "address size" for each allocation.
std::string list_allocations();
