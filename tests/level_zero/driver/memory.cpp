#include "memory.h"

#include "commands.h"
#include "report.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>

namespace {

struct Allocation {
    size_t size;
    ze_memory_type_t type;
    uint64_t id;
};

constexpr uintptr_t BASE = 0x100000000000;  // far from what Linux maps by itself, in this process and in the executor
constexpr size_t PAGE = 4096, FILLED = 1 << 20;
constexpr int FRESH = 0xA5, FREED = 0xDD;  // nobody clears a GPU's memory

// Never destroyed: the runtime calls until the very end of the process.
std::map<uintptr_t, Allocation> &allocations = *new std::map<uintptr_t, Allocation>;
std::mutex &lock = *new std::mutex;
size_t allocated = 0;
uint64_t last_id = 0;

std::map<uintptr_t, Allocation>::iterator find(uintptr_t address) {
    auto found = allocations.upper_bound(address);
    if (found == allocations.begin()) return allocations.end();
    --found;
    return address < found->first + found->second.size ? found : allocations.end();
}

// The first gap that is large enough, with a free page on both sides.
uintptr_t find_gap(size_t size, size_t alignment) {
    auto aligned = [&](uintptr_t address) { return (address + alignment - 1) / alignment * alignment; };
    uintptr_t address = aligned(device_memory().address + PAGE);
    for (auto &[begin, allocation] : allocations) {
        if (address + size + PAGE <= begin) break;
        address = aligned(begin + allocation.size + PAGE);
    }
    return address;
}

ze_result_t allocate(ze_memory_type_t type, size_t size, size_t alignment, void **pointer) {
    static const size_t limit = number_setting("MEMORY", 1ull << 40);
    std::lock_guard<std::mutex> guard(lock);
    const Mapping &mapping = device_memory();
    uintptr_t address = find_gap(size, std::max(alignment, PAGE));
    if (allocated + size > limit || address + size + PAGE > mapping.address + mapping.size)
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    *pointer = reinterpret_cast<void *>(address);
    memset(*pointer, FRESH, std::min(size, FILLED));
    allocations[address] = {size, type, ++last_id};
    allocated += size;
    trace("    %zu bytes at %p", size, *pointer);
    return ZE_RESULT_SUCCESS;
}

}  // namespace

const Mapping &device_memory() {
    static const Mapping mapping = [] {
        size_t size = number_setting("MAPPING", 4ull << 30);
        int file = memfd_create("software-gpu", 0);
        void *wanted = reinterpret_cast<void *>(BASE);
        void *address = ftruncate(file, size) ? MAP_FAILED
                                              : mmap(wanted, size, PROT_READ | PROT_WRITE,
                                                     MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, file, 0);
        if (address != wanted) finding("%zu bytes cannot be mapped at %p", size, wanted);
        return Mapping{file, BASE, address == wanted ? size : 0};
    }();
    return mapping;
}

bool is_allocated(uintptr_t address) {
    std::lock_guard<std::mutex> guard(lock);
    return find(address) != allocations.end();
}

std::string list_allocations() {
    std::lock_guard<std::mutex> guard(lock);
    std::ostringstream text;
    for (auto &[begin, allocation] : allocations) text << begin << " " << allocation.size << "\n";
    return text.str();
}

ZE_API ze_result_t zeMemAllocDevice(ze_context_handle_t, const void *, size_t size, size_t alignment,
                                    ze_device_handle_t, void **pointer) {
    TRACE();
    return allocate(ZE_MEMORY_TYPE_DEVICE, size, alignment, pointer);
}

ZE_API ze_result_t zeMemAllocHost(ze_context_handle_t, const void *, size_t size, size_t alignment, void **pointer) {
    TRACE();
    return allocate(ZE_MEMORY_TYPE_HOST, size, alignment, pointer);
}

ZE_API ze_result_t zeMemAllocShared(ze_context_handle_t, const void *, const void *, size_t size, size_t alignment,
                                    ze_device_handle_t, void **pointer) {
    TRACE();
    return allocate(ZE_MEMORY_TYPE_SHARED, size, alignment, pointer);
}

ZE_API ze_result_t zeMemFree(ze_context_handle_t, void *pointer) {
    TRACE();
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    std::unique_lock<std::mutex> guard(lock);
    auto found = allocations.find(address);
    size_t size = found == allocations.end() ? 0 : found->second.size;
    guard.unlock();
    report_pending_use(address, size);  // before it is erased: another thread may then get the same address, and use it
    guard.lock();
    found = allocations.find(address);
    if (found == allocations.end()) {
        finding("%p is freed, which is no allocation", pointer);
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    }
    memset(pointer, FREED, std::min(size, FILLED));
    allocated -= size;
    allocations.erase(found);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeMemFreeExt(ze_context_handle_t context, const void *, void *pointer) {
    return zeMemFree(context, pointer);
}

ZE_API ze_result_t zeMemGetAllocProperties(ze_context_handle_t, const void *pointer,
                                           ze_memory_allocation_properties_t *properties, ze_device_handle_t *device) {
    TRACE();
    std::lock_guard<std::mutex> guard(lock);
    auto found = find(reinterpret_cast<uintptr_t>(pointer));
    bool is_known = found != allocations.end();
    properties->type = is_known ? found->second.type : ZE_MEMORY_TYPE_UNKNOWN;
    properties->id = is_known ? found->second.id : 0;
    properties->pageSize = PAGE;
    if (device) *device = is_known && found->second.type != ZE_MEMORY_TYPE_HOST ? the_device() : nullptr;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeMemGetAddressRange(ze_context_handle_t, const void *pointer, void **base, size_t *size) {
    TRACE();
    std::lock_guard<std::mutex> guard(lock);
    auto found = find(reinterpret_cast<uintptr_t>(pointer));
    if (found == allocations.end()) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    if (base) *base = reinterpret_cast<void *>(found->first);
    if (size) *size = found->second.size;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeContextMakeMemoryResident(ze_context_handle_t, ze_device_handle_t, void *, size_t) {
    TRACE();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeContextEvictMemory(ze_context_handle_t, ze_device_handle_t, void *, size_t) {
    TRACE();
    return ZE_RESULT_SUCCESS;
}

// Memory shared with other processes: the runtime's pools look the functions up, and do not call them.
ZE_API ze_result_t zeMemGetIpcHandle() { return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE; }
ZE_API ze_result_t zeMemPutIpcHandle() { return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE; }
ZE_API ze_result_t zeMemOpenIpcHandle() { return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE; }
ZE_API ze_result_t zeMemCloseIpcHandle() { return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE; }
