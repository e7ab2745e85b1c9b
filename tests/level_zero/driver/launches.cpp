// Kernel arguments and launches.
#include "commands.h"
#include "executor.h"
#include "kernels.h"
#include "memory.h"
#include "report.h"

#include <cstring>
#include <sstream>

using std::string;

static const char *name_of(const Kernel &kernel) { return kernel.description->name.c_str(); }

static string three(const uint32_t *numbers) {
    std::ostringstream text;
    text << numbers[0] << " " << numbers[1] << " " << numbers[2];
    return text.str();
}

static uintptr_t address_in(const string &value) {
    uintptr_t address;
    memcpy(&address, value.data(), sizeof address);
    return address;
}

static ze_result_t set_argument(Kernel &kernel, uint32_t index, size_t size, const void *value) {
    if (index >= kernel.values.size()) {
        finding("%s has %zu arguments, and argument %u is set", name_of(kernel), kernel.values.size(), index);
        return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
    }
    const KernelArgument &argument = kernel.description->arguments[index];
    if (argument.kind != 'l' && size != argument.size) {
        finding("argument %u of %s has %u bytes, and is set to %zu", index, name_of(kernel), argument.size, size);
        return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    }
    // A null pointer comes as no value at all; local memory has a size alone.
    string bytes = value ? string(static_cast<const char *>(value), size) : string(size, '\0');
    if (argument.kind == 'p' && address_in(bytes) && !is_allocated(address_in(bytes))) {
        finding("argument %u of %s, %#zx, is in no memory of the device", index, name_of(kernel), address_in(bytes));
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    kernel.values[index] = bytes;
    return ZE_RESULT_SUCCESS;
}

static Outcome run(const std::vector<string> &request) {
    std::vector<string> complete = request;
    complete.insert(complete.begin() + 1, list_allocations());
    auto answer = ask_executor(complete);
    if (answer[0] == "done") return Outcome::done;
    finding("%s: %s", request.at(2).c_str(), answer.at(1).c_str());
    return answer[0] == "fault" ? Outcome::fault : Outcome::done;
}

static ze_result_t launch(ze_command_list_handle_t list, const Kernel &kernel, const ze_group_count_t &groups,
                          ze_event_handle_t signal, uint32_t count, ze_event_handle_t *waits) {
    const uint32_t counts[] = {groups.groupCountX, groups.groupCountY, groups.groupCountZ};
    std::vector<string> request = {"run", kernel.module->id, kernel.description->name, three(counts),
                                   three(kernel.group), three(kernel.offset)};
    Spans spans;
    for (size_t i = 0; i < kernel.values.size(); i++) {
        const string &value = kernel.values[i];
        const KernelArgument &argument = kernel.description->arguments[i];
        if (value.size() != argument.size && argument.kind != 'l')
            finding("argument %zu of %s was never set", i, name_of(kernel));
        if (argument.kind == 'p' && value.size() == argument.size) spans.push_back({address_in(value), 1});
        request.push_back(value);
    }
    return append(list, "kernel " + kernel.description->name, [request] { return run(request); }, spans, signal, count,
                  waits);
}

uint32_t largest_group(const KernelDescription &description) {  // half the threads where each has twice the registers
    uint32_t threads = number_setting("THREADS", 64) / (description.registers > 128 ? 2 : 1);
    return std::min<uint32_t>(1024, threads * description.simd_size);
}

ZE_API ze_result_t zeKernelSetArgumentValue(ze_kernel_handle_t kernel, uint32_t index, size_t size, const void *value) {
    TRACE();
    return set_argument(*static_cast<Kernel *>(kernel), index, size, value);
}

ZE_API ze_result_t zeKernelSetGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z) {
    TRACE();
    Kernel &kernel = *static_cast<Kernel *>(handle);
    if (x * y * z > largest_group(*kernel.description)) return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
    const uint32_t sizes[] = {x, y, z}, *required = kernel.description->required_group;
    for (int i = 0; i < 3; i++) {
        if (required[i] && required[i] != sizes[i]) return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
        kernel.group[i] = sizes[i];
    }
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeKernelSuggestGroupSize(ze_kernel_handle_t, uint32_t x, uint32_t, uint32_t, uint32_t *group_x,
                                            uint32_t *group_y, uint32_t *group_z) {
    TRACE();
    *group_y = *group_z = 1;
    for (*group_x = 256; x % *group_x;) *group_x /= 2;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeKernelSetGlobalOffsetExp(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z) {
    TRACE();
    Kernel &kernel = *static_cast<Kernel *>(handle);
    kernel.offset[0] = x, kernel.offset[1] = y, kernel.offset[2] = z;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeCommandListAppendLaunchKernel(ze_command_list_handle_t list, ze_kernel_handle_t kernel,
                                                   const ze_group_count_t *groups, ze_event_handle_t signal,
                                                   uint32_t count, ze_event_handle_t *waits) {
    TRACE();
    return launch(list, *static_cast<Kernel *>(kernel), *groups, signal, count, waits);
}

// Drivers from 1.14.36035 on have it, and adapter V2 calls it there.
ZE_API ze_result_t zeCommandListAppendLaunchKernelWithArguments(ze_command_list_handle_t list,
                                                                ze_kernel_handle_t handle,
                                                                const ze_group_count_t groups,
                                                                const ze_group_size_t size, void **arguments,
                                                                const void *, ze_event_handle_t signal, uint32_t count,
                                                                ze_event_handle_t *waits) {
    TRACE();
    Kernel &kernel = *static_cast<Kernel *>(handle);
    if (auto result = zeKernelSetGroupSize(handle, size.groupSizeX, size.groupSizeY, size.groupSizeZ)) return result;
    for (uint32_t i = 0; i < kernel.values.size(); i++)
        if (auto result = set_argument(kernel, i, kernel.description->arguments[i].size, arguments[i])) return result;
    return launch(list, kernel, groups, signal, count, waits);
}
