// Modules and kernels as the compiler describes them.
#pragma once

#include "level_zero.h"

#include <string>
#include <vector>

struct KernelArgument {
    char kind;  // 'p' pointer, 'v' value, 'l' local memory
    uint32_t size;
};

struct KernelDescription {
    std::string name;
    uint32_t simd_size, registers, slm_size, spill_size, private_size, required_group[3];
    std::vector<KernelArgument> arguments;
};

struct Module {
    std::string id;                    // the executor's
    std::string missing;               // functions that nothing defines, a line each
    std::vector<KernelDescription> kernels;
};

struct Kernel {
    const Module *module;
    const KernelDescription *description;
    uint32_t group[3], offset[3];
    std::vector<std::string> values;   // bytes of each argument; empty: not set
};

uint32_t largest_group(const KernelDescription &description);
