// Settings from the environment, the trace of calls, and findings: what a GPU would do wrong without a word.
#pragma once

#include <string>

// A variable SOFTWARE_GPU_<name>; `otherwise` if it is not set.
std::string setting(const char *name, const char *otherwise = "");
uint64_t number_setting(const char *name, uint64_t otherwise);

// A line of the trace, which the file SOFTWARE_GPU_TRACE gets.
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define TRACE() trace("%s", __func__)

// A mistake of the program: on standard error, and in the file SOFTWARE_GPU_FINDINGS.
void finding(const char *format, ...) __attribute__((format(printf, 1, 2)));
