// Modules: SPIR-V, which the executor's process compiles.
#include "executor.h"
#include "kernels.h"
#include "report.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <sstream>

using std::string;

// Copy text to a caller who asks for its size first.
static ze_result_t give_text(const string &text, size_t *size, char *into) {
    if (into) memcpy(into, text.c_str(), std::min(*size, text.size() + 1));
    *size = text.size() + 1;
    return ZE_RESULT_SUCCESS;
}

// A kernel's description is two lines: its name; numbers, then its arguments, such as "p8 v4".
static KernelDescription parse_kernel(const string &text) {
    std::istringstream lines(text);
    KernelDescription kernel{};
    std::getline(lines, kernel.name);
    lines >> kernel.simd_size >> kernel.registers >> kernel.slm_size >> kernel.spill_size >> kernel.private_size;
    for (uint32_t &size : kernel.required_group) lines >> size;
    for (KernelArgument argument{}; lines >> argument.kind >> argument.size;) kernel.arguments.push_back(argument);
    return kernel;
}

// The SPIR-V of a module: its own, or that of the modules that it is linked from.
static std::vector<string> spirv_of(const ze_module_desc_t &description) {
    std::vector<string> modules;
    auto program = static_cast<const ze_module_program_exp_desc_t *>(description.pNext);
    if (program && program->stype == ZE_STRUCTURE_TYPE_MODULE_PROGRAM_EXP_DESC)
        for (uint32_t i = 0; i < program->count; i++)
            modules.emplace_back(reinterpret_cast<const char *>(program->pInputModules[i]), program->inputSizes[i]);
    else
        modules.emplace_back(reinterpret_cast<const char *>(description.pInputModule), description.inputSize);
    return modules;
}

ZE_API ze_result_t zeModuleCreate(ze_context_handle_t, ze_device_handle_t, const ze_module_desc_t *description,
                                  ze_module_handle_t *handle, ze_module_build_log_handle_t *log) {
    static std::atomic<unsigned> last_id{0};
    string flags = description->pBuildFlags ? description->pBuildFlags : "";
    trace("%s: format %u, %zu bytes, flags '%s', %s", __func__, description->format, description->inputSize,
          flags.c_str(), log ? "with a log" : "without a log");
    auto module = std::make_unique<Module>();
    module->id = std::to_string(++last_id);
    std::vector<string> request = {"build", module->id, flags};
    std::vector<string> answer = {"refused", "error: this device takes SPIR-V alone"};
    if (description->format == ZE_MODULE_FORMAT_IL_SPIRV) {
        for (const string &spirv : spirv_of(*description)) request.push_back(spirv);
        answer = ask_executor(request);
    }
    if (log) *log = new string(answer.at(1));
    trace("    %s: %s", answer[0].c_str(), answer[1].c_str());
    if (answer[0] == "gone") finding("%s", answer[1].c_str());
    if (answer[0] != "built") return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    if (!answer.at(2).empty()) finding("unknown build options: %s", answer[2].c_str());
    module->missing = answer.at(3);
    for (size_t i = 4; i < answer.size(); i++) module->kernels.push_back(parse_kernel(answer[i]));
    *handle = module.release();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeModuleDestroy(ze_module_handle_t handle) {
    TRACE();
    Module *module = static_cast<Module *>(handle);
    ask_executor({"release", module->id});
    delete module;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeModuleBuildLogGetString(ze_module_build_log_handle_t log, size_t *size, char *text) {
    TRACE();
    return give_text(*static_cast<string *>(log), size, text);
}

ZE_API ze_result_t zeModuleBuildLogDestroy(ze_module_build_log_handle_t log) {
    TRACE();
    delete static_cast<string *>(log);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeModuleGetProperties(ze_module_handle_t module, ze_module_properties_t *properties) {
    TRACE();
    properties->flags = static_cast<Module *>(module)->missing.empty() ? 0u : ZE_MODULE_PROPERTY_FLAG_IMPORTS;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeModuleDynamicLink(uint32_t count, ze_module_handle_t *modules, ze_module_build_log_handle_t *log) {
    TRACE();
    string text;
    for (uint32_t i = 0; i < count; i++) {
        std::istringstream names(static_cast<Module *>(modules[i])->missing);
        for (string name; std::getline(names, name);) text += "error: undefined reference to `" + name + "'\n";
    }
    if (log) *log = new string(text);
    return text.empty() ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_MODULE_LINK_FAILURE;
}

ZE_API ze_result_t zeModuleGetKernelNames(ze_module_handle_t handle, uint32_t *count, const char **names) {
    TRACE();
    const auto &kernels = static_cast<Module *>(handle)->kernels;
    if (names)
        for (uint32_t i = 0; i < std::min<size_t>(*count, kernels.size()); i++) names[i] = kernels[i].name.c_str();
    *count = kernels.size();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeKernelCreate(ze_module_handle_t handle, const ze_kernel_desc_t *description,
                                  ze_kernel_handle_t *kernel) {
    trace("%s: %s", __func__, description->pKernelName);
    const Module *module = static_cast<Module *>(handle);
    if (!module->missing.empty()) return ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED;
    for (const KernelDescription &found : module->kernels)
        if (found.name == description->pKernelName) {
            *kernel = new Kernel{module, &found, {1, 1, 1}, {0, 0, 0}, std::vector<string>(found.arguments.size())};
            return ZE_RESULT_SUCCESS;
        }
    return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
}

ZE_API ze_result_t zeKernelDestroy(ze_kernel_handle_t kernel) {
    TRACE();
    delete static_cast<Kernel *>(kernel);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeKernelGetName(ze_kernel_handle_t kernel, size_t *size, char *into) {
    TRACE();
    return give_text(static_cast<Kernel *>(kernel)->description->name, size, into);
}

ZE_API ze_result_t zeKernelGetProperties(ze_kernel_handle_t kernel, ze_kernel_properties_t *properties) {
    TRACE();
    const KernelDescription &d = *static_cast<Kernel *>(kernel)->description;
    properties->numKernelArgs = d.arguments.size();
    properties->requiredGroupSizeX = d.required_group[0];
    properties->requiredGroupSizeY = d.required_group[1];
    properties->requiredGroupSizeZ = d.required_group[2];
    properties->requiredNumSubGroups = 0;
    properties->requiredSubgroupSize = properties->maxSubgroupSize = d.simd_size;
    properties->maxNumSubgroups = largest_group(d) / d.simd_size;
    properties->localMemSize = d.slm_size;
    properties->privateMemSize = d.private_size;
    properties->spillMemSize = d.spill_size;
    for (auto next = static_cast<ze_uint32_property_t *>(properties->pNext); next;
         next = static_cast<ze_uint32_property_t *>(next->pNext)) {
        if (next->stype == ZE_STRUCTURE_TYPE_KERNEL_PREFERRED_GROUP_SIZE_PROPERTIES) next->value = d.simd_size;
        if (next->stype == ZE_STRUCTURE_TYPE_KERNEL_MAX_GROUP_SIZE_EXT_PROPERTIES) next->value = largest_group(d);
    }
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeKernelSetIndirectAccess(ze_kernel_handle_t, uint32_t) {
    TRACE();
    return ZE_RESULT_SUCCESS;
}
