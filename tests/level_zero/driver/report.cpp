#include "report.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

std::string setting(const char *name, const char *otherwise) {
    const char *value = getenv((std::string("SOFTWARE_GPU_") + name).c_str());
    return value && *value ? value : otherwise;
}

uint64_t number_setting(const char *name, uint64_t otherwise) {
    std::string text = setting(name);
    return text.empty() ? otherwise : strtoull(text.c_str(), nullptr, 0);
}

// One write for each line: several processes append to the same file.
static void append_line(const char *variable, const std::string &text) {
    std::string path = setting(variable);
    FILE *file = path.empty() ? nullptr : fopen(path.c_str(), "a");
    if (!file) return;
    fprintf(file, "%s\n", text.c_str());
    fclose(file);
}

static std::string formatted(const char *format, va_list arguments) {
    char text[4096];
    vsnprintf(text, sizeof text, format, arguments);
    return text;
}

void trace(const char *format, ...) {
    static const bool is_on = !setting("TRACE").empty();
    if (!is_on) return;
    va_list arguments;
    va_start(arguments, format);
    append_line("TRACE", formatted(format, arguments));
    va_end(arguments);
}

void finding(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::string text = formatted(format, arguments);
    va_end(arguments);
    fprintf(stderr, "software GPU: %s\n", text.c_str());
    append_line("FINDINGS", text);
    trace("finding: %s", text.c_str());
}
