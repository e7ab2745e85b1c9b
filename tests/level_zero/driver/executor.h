// The process that compiles modules and runs kernels: SOFTWARE_GPU_EXECUTOR, a command. It maps the device's memory at
// the same address. Being a process of its own it needs no lock of Python's that a thread of this process may hold.
#pragma once

#include <string>
#include <vector>

// Send a request, a list of byte strings, and return the answer. A process that ended answers "gone".
std::vector<std::string> ask_executor(const std::vector<std::string> &request);
