// Commands: what a program appended to a list, what it waits for, and when it runs.
//
// A command runs as late as it may: when the host waits for it, and after what it says that it waits for, no more. What
// a program forgot to wait for has not run then. Of commands between which there is no order the last runs first.
#pragma once

#include "level_zero.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

ze_device_handle_t the_device();

// What running a command gave: `fault` loses the device, as a page fault does.
enum class Outcome { done, fault };

using Spans = std::vector<std::pair<uintptr_t, size_t>>;  // address and bytes of memory that a command uses

// Append work to a list; `is_barrier`: in a list without order it waits for all before it, and all after it wait for it.
ze_result_t append(ze_command_list_handle_t list, const std::string &name, std::function<Outcome()> work, Spans spans,
                   ze_event_handle_t signal, uint32_t count, ze_event_handle_t *waits, bool is_barrier = false);

// A finding for every command that has not run and uses this memory.
void report_pending_use(uintptr_t address, size_t size);
