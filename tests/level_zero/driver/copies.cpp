// Commands that launch no kernel: copies, fills, barriers.
#include "commands.h"
#include "report.h"

#include <cstring>
#include <string>

static std::string name_of(const char *kind, size_t size) {
    return std::string(kind) + " of " + std::to_string(size) + " bytes";
}

static std::pair<uintptr_t, size_t> span(const void *pointer, size_t size) {
    return {reinterpret_cast<uintptr_t>(pointer), size};
}

static Outcome nothing() { return Outcome::done; }

ZE_API ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *to, const void *from, size_t size,
                                                 ze_event_handle_t signal, uint32_t count, ze_event_handle_t *waits) {
    TRACE();
    auto copy = [=] {
        memmove(to, from, size);
        return Outcome::done;
    };
    return append(list, name_of("a copy", size), copy, {span(to, size), span(from, size)}, signal, count, waits);
}

ZE_API ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t list, void *to, const void *pattern,
                                                 size_t pattern_size, size_t size, ze_event_handle_t signal,
                                                 uint32_t count, ze_event_handle_t *waits) {
    TRACE();
    std::string bytes(static_cast<const char *>(pattern), pattern_size);
    auto fill = [=] {
        for (size_t i = 0; i < size; i++) static_cast<char *>(to)[i] = bytes[i % bytes.size()];
        return Outcome::done;
    };
    return append(list, name_of("a fill", size), fill, {span(to, size)}, signal, count, waits);
}

ZE_API ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t count,
                                              ze_event_handle_t *waits) {
    TRACE();
    return append(list, "a barrier", nothing, {}, signal, count, waits, true);
}

ZE_API ze_result_t zeCommandListAppendWaitOnEvents(ze_command_list_handle_t list, uint32_t count,
                                                   ze_event_handle_t *waits) {
    TRACE();
    return append(list, "a wait", nothing, {}, nullptr, count, waits, true);
}

ZE_API ze_result_t zeCommandListAppendSignalEvent(ze_command_list_handle_t list, ze_event_handle_t event) {
    TRACE();
    return append(list, "a signal", nothing, {}, event, 0, nullptr, true);
}

ZE_API ze_result_t zeCommandListAppendMemoryPrefetch(ze_command_list_handle_t, const void *, size_t) {
    TRACE();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeCommandListAppendMemAdvise(ze_command_list_handle_t, ze_device_handle_t, const void *, size_t,
                                                uint32_t) {
    TRACE();
    return ZE_RESULT_SUCCESS;
}
