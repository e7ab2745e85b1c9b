#include "commands.h"

#include "report.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

namespace {

struct Event;

enum class State { waiting, running, done };

struct Command {
    std::string name;
    std::function<Outcome()> work;
    Spans spans;
    std::vector<std::shared_ptr<Command>> predecessors;
    std::vector<Event *> host_events;  // events that no command signals yet: the host may
    Event *signal = nullptr;
    State state = State::waiting;
    uint64_t began = 0, ended = 0;
};
using CommandPointer = std::shared_ptr<Command>;

struct EventPool {
    bool is_counter_based;
};

struct Event {
    CommandPointer command;
    bool is_signaled = false;
    unsigned queries = 0;
    uint64_t began = 0, ended = 0;
};

struct CommandList {
    bool is_in_order = false;
    std::vector<CommandPointer> commands{};  // those that have not run, and perhaps some that have
    CommandPointer barrier{};
};

// Never destroyed: the runtime calls until the very end of the process.
std::mutex &mutex = *new std::mutex;
std::condition_variable &changed = *new std::condition_variable;
std::vector<CommandPointer> &pending = *new std::vector<CommandPointer>;
std::atomic<bool> is_lost{false};
using Lock = std::unique_lock<std::mutex>;

bool is_done(const CommandPointer &command) { return command->state == State::done; }

void erase_done(std::vector<CommandPointer> &commands) {
    commands.erase(std::remove_if(commands.begin(), commands.end(), is_done), commands.end());
}

uint64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

ze_result_t status() { return is_lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS; }

bool complete_event(Event *event, Lock &lock);

// Run a command, without the lock: others may append meanwhile.
void run(const CommandPointer &command, Lock &lock) {
    command->state = State::running;
    trace("    run %s", command->name.c_str());
    lock.unlock();
    command->began = now();
    Outcome outcome = command->work && !is_lost ? command->work() : Outcome::done;
    command->ended = now();
    lock.lock();
    if (outcome == Outcome::fault) is_lost = true;
    command->state = State::done;
    command->predecessors.clear();
    command->work = nullptr;
    erase_done(pending);
    Event *event = command->signal;
    if (event && event->command == command && !is_lost) {  // of a lost device, no event is ever signaled
        event->is_signaled = true;
        event->began = command->began;
        event->ended = command->ended;
    }
    changed.notify_all();
}

// Run a command after all that it waits for. False: it waits for an event that only the host can signal.
bool complete(const CommandPointer &command, Lock &lock) {
    if (command->state == State::waiting) {
        auto predecessors = command->predecessors;  // copies: the lock is released below
        auto host_events = command->host_events;
        for (const CommandPointer &predecessor : predecessors)
            if (!complete(predecessor, lock)) return false;
        for (Event *event : host_events)
            if (!is_lost && !complete_event(event, lock)) return false;
        if (command->state == State::waiting) run(command, lock);
    }
    changed.wait(lock, [&] { return command->state == State::done; });  // another thread may run it
    return true;
}

bool complete_event(Event *event, Lock &lock) {
    if (event->is_signaled || !event->command) return event->is_signaled;
    CommandPointer command = event->command;
    return complete(command, lock) && event->is_signaled;
}

bool complete_all(const std::vector<CommandPointer> &of, Lock &lock) {
    std::vector<CommandPointer> commands = of;
    bool are_done = true;
    std::for_each(commands.rbegin(), commands.rend(), [&](const CommandPointer &c) { are_done &= complete(c, lock); });
    return are_done;
}

// Wait until `try_once` succeeds; NOT_READY if it does not at once and the caller gave a time limit.
ze_result_t wait_until(Lock &lock, uint64_t timeout, const std::function<bool()> &try_once) {
    while (!is_lost && !try_once()) {
        if (is_lost) break;
        if (timeout != UINT64_MAX) return ZE_RESULT_NOT_READY;
        changed.wait(lock);
    }
    return status();
}

void add_waits(Command &command, uint32_t count, ze_event_handle_t *waits) {
    for (uint32_t i = 0; i < count; i++) {
        Event *event = static_cast<Event *>(waits[i]);
        if (event->command && !is_done(event->command)) command.predecessors.push_back(event->command);
        else if (!event->is_signaled) command.host_events.push_back(event);
    }
}

void add_list_order(Command &command, const CommandList &list, bool is_barrier) {
    const auto &before = list.commands;
    if (list.is_in_order && !before.empty()) command.predecessors.push_back(before.back());
    else if (is_barrier) command.predecessors.insert(command.predecessors.end(), before.begin(), before.end());
    else if (list.barrier) command.predecessors.push_back(list.barrier);
}

}  // namespace

ze_result_t append(ze_command_list_handle_t handle, const std::string &name, std::function<Outcome()> work, Spans spans,
                   ze_event_handle_t signal, uint32_t count, ze_event_handle_t *waits, bool is_barrier) {
    static const bool is_eager = setting("ORDER", "late") == "early";
    CommandList &list = *static_cast<CommandList *>(handle);
    trace("    %s on list %p%s: waits for %u events, signals %p", name.c_str(), handle,
          list.is_in_order ? " (in order)" : "", count, signal);
    Lock lock(mutex);
    if (is_lost) return status();
    auto command = std::make_shared<Command>();
    command->name = name;
    command->work = std::move(work);
    command->spans = std::move(spans);
    add_waits(*command, count, waits);
    add_list_order(*command, list, is_barrier);
    if (is_barrier) list.barrier = command;
    if (signal) {
        command->signal = static_cast<Event *>(signal);
        *command->signal = {command};
    }
    erase_done(list.commands);
    list.commands.push_back(command);
    pending.push_back(command);
    if (is_eager) complete(command, lock);
    return status();
}

void report_pending_use(uintptr_t address, size_t size) {
    Lock lock(mutex);
    for (const CommandPointer &command : pending)
        for (auto [begin, bytes] : command->spans)
            if (begin < address + size && address < begin + std::max<size_t>(bytes, 1))
                finding("memory at %#zx is freed before %s has run", address, command->name.c_str());
}

ZE_API ze_result_t zeCommandListCreateImmediate(ze_context_handle_t, ze_device_handle_t,
                                                const ze_command_queue_desc_t *description,
                                                ze_command_list_handle_t *list) {
    *list = new CommandList{(description->flags & ZE_COMMAND_QUEUE_FLAG_IN_ORDER) != 0};
    trace("%s: %p, flags %#x", __func__, *list, description->flags);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeCommandListDestroy(ze_command_list_handle_t handle) {
    TRACE();
    Lock lock(mutex);
    CommandList *list = static_cast<CommandList *>(handle);
    complete_all(list->commands, lock);
    delete list;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeCommandListHostSynchronize(ze_command_list_handle_t handle, uint64_t timeout) {
    TRACE();
    Lock lock(mutex);
    CommandList *list = static_cast<CommandList *>(handle);
    if (timeout == 0) {  // a question
        erase_done(list->commands);
        return is_lost || list->commands.empty() ? status() : ZE_RESULT_NOT_READY;
    }
    return wait_until(lock, timeout, [&] { return complete_all(list->commands, lock); });
}

ZE_API ze_result_t zeDeviceSynchronize(ze_device_handle_t) {
    TRACE();
    Lock lock(mutex);
    return wait_until(lock, UINT64_MAX, [&] { return complete_all(pending, lock) && pending.empty(); });
}

ZE_API ze_result_t zeDeviceGetStatus(ze_device_handle_t) {
    TRACE();
    return status();
}

ZE_API ze_result_t zeContextGetStatus(ze_context_handle_t) {
    TRACE();
    return status();
}

ZE_API ze_result_t zeEventPoolCreate(ze_context_handle_t, const ze_event_pool_desc_t *description, uint32_t,
                                     ze_device_handle_t *, ze_event_pool_handle_t *pool) {
    TRACE();
    *pool = new EventPool{description->pNext != nullptr};  // the only extension: events that count
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t pool) {
    TRACE();
    delete static_cast<EventPool *>(pool);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeEventCreate(ze_event_pool_handle_t pool, const void *, ze_event_handle_t *event) {
    TRACE();
    // A counter-based event is complete before its first use.
    *event = new Event{nullptr, static_cast<EventPool *>(pool)->is_counter_based};
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeEventDestroy(ze_event_handle_t handle) {
    TRACE();
    Lock lock(mutex);
    Event *event = static_cast<Event *>(handle);
    if (event->command && event->command->signal == event) {
        event->command->signal = nullptr;
        if (!is_done(event->command) && !is_lost)
            finding("an event is destroyed before %s has run", event->command->name.c_str());
    }
    delete event;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeEventHostSignal(ze_event_handle_t event) {
    TRACE();
    Lock lock(mutex);
    static_cast<Event *>(event)->is_signaled = true;
    changed.notify_all();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeEventHostReset(ze_event_handle_t handle) {
    TRACE();
    Lock lock(mutex);
    Event *event = static_cast<Event *>(handle);
    if (event->command && !is_done(event->command) && !is_lost)
        finding("an event is reset before %s has run", event->command->name.c_str());
    *event = {};
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeEventQueryStatus(ze_event_handle_t handle) {
    static const unsigned patience = number_setting("PATIENCE", 4);  // a GPU gets on with its work while it is asked
    Lock lock(mutex);
    Event *event = static_cast<Event *>(handle);
    if (++event->queries > patience) complete_event(event, lock);
    trace("%s %p: %s", __func__, handle, event->is_signaled ? "done" : "not yet");
    return event->is_signaled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

ZE_API ze_result_t zeEventHostSynchronize(ze_event_handle_t event, uint64_t timeout) {
    TRACE();
    Lock lock(mutex);
    return wait_until(lock, timeout, [&] { return complete_event(static_cast<Event *>(event), lock); });
}

ZE_API ze_result_t zeEventQueryKernelTimestamp(ze_event_handle_t handle, ze_kernel_timestamp_result_t *result) {
    TRACE();
    Lock lock(mutex);
    Event *event = static_cast<Event *>(handle);
    result->global = {event->began, event->ended};
    result->context = {event->began, event->ended};
    return event->is_signaled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}

ZE_API ze_result_t zeDeviceGetGlobalTimestamps(ze_device_handle_t, uint64_t *host, uint64_t *device) {
    TRACE();
    *host = *device = now();
    return ZE_RESULT_SUCCESS;
}

// For tests: a lost device works again.
ZE_API void software_gpu_reset() {
    Lock lock(mutex);
    is_lost = false;
}

// For tests: commands that have not run.
ZE_API size_t software_gpu_pending() {
    Lock lock(mutex);
    return pending.size();
}
