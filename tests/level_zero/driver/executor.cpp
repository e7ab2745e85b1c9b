#include "executor.h"

#include "memory.h"
#include "report.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <string>

using std::string;
using std::to_string;

// Start the process, and return this end of the socket to it; -1 on failure.
static int start() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return -1;
    fcntl(ends[1], F_SETFD, 0);  // only the executor's end is inherited
    const Mapping &mapping = device_memory();
    string command = "exec " + setting("EXECUTOR", "false") + " " + to_string(ends[1]) + " " + to_string(mapping.file) +
                     " " + to_string(mapping.address) + " " + to_string(mapping.size);
    const char *const words[] = {"sh", "-c", command.c_str(), nullptr};
    pid_t child;
    bool is_started = posix_spawn(&child, "/bin/sh", nullptr, nullptr, const_cast<char *const *>(words), environ) == 0;
    close(ends[1]);
    return is_started ? ends[0] : -1;
}

static bool send_all(int socket, const string &data) {
    for (size_t sent = 0; sent < data.size();) {
        ssize_t count = send(socket, data.data() + sent, data.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) return false;
        sent += count;
    }
    return true;
}

static bool receive_all(int socket, void *into, size_t size) {
    for (size_t got = 0; got < size;) {
        ssize_t count = recv(socket, static_cast<char *>(into) + got, size - got, 0);
        if (count <= 0) return false;
        got += count;
    }
    return true;
}

static string word(uint32_t value) { return string(reinterpret_cast<const char *>(&value), sizeof value); }

// On the wire: the number of strings, then each with its length; numbers have 32 bits.
static bool exchange(int socket, const std::vector<string> &request, std::vector<string> &answer) {
    string data = word(request.size());
    for (const string &part : request) data += word(part.size()) + part;
    uint32_t count, size;
    if (!send_all(socket, data) || !receive_all(socket, &count, sizeof count)) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (!receive_all(socket, &size, sizeof size)) return false;
        string part(size, '\0');
        if (!receive_all(socket, part.data(), size)) return false;
        answer.push_back(part);
    }
    return count > 0;
}

std::vector<string> ask_executor(const std::vector<string> &request) {
    static std::mutex &turn = *new std::mutex;
    std::lock_guard<std::mutex> guard(turn);
    static const int socket = start();
    std::vector<string> answer;
    return exchange(socket, request, answer) ? answer : std::vector<string>{"gone", "the executor's process has ended"};
}
