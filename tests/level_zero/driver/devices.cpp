// The loader, one driver, one device. What kind of GPU it is, SOFTWARE_GPU_ID and its like say.
#include "commands.h"
#include "report.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

static int driver, device;  // their addresses are the handles

ze_device_handle_t the_device() { return &device; }

ZE_API ze_result_t zeInit(uint32_t) {
    TRACE();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *drivers) {
    TRACE();
    *count = 1;
    if (drivers) *drivers = &driver;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeInitDrivers(uint32_t *count, ze_driver_handle_t *drivers, void *) {
    return zeDriverGet(count, drivers);
}

ZE_API ze_result_t zeDriverGetApiVersion(ze_driver_handle_t, uint32_t *version) {
    TRACE();
    *version = ze_version(1, 13);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDriverGetProperties(ze_driver_handle_t, ze_driver_properties_t *properties) {
    TRACE();
    unsigned major = 0, minor = 0, build = 0;
    sscanf(setting("DRIVER", "1.6.33578").c_str(), "%u.%u.%u", &major, &minor, &build);
    memset(properties->uuid, 7, sizeof properties->uuid);
    properties->driverVersion = major << 24 | minor << 16 | build;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDriverGetExtensionProperties(ze_driver_handle_t, uint32_t *count,
                                                  ze_driver_extension_properties_t *properties) {
    TRACE();
    static const char *const NAMES[] = {
        "ZE_experimental_global_offset", "ZE_experimental_module_program", "ZE_experimental_event_pool_counter_based",
        "ZE_experimental_immediate_command_list_append", "ZE_extension_float_atomics",
        "ZE_extension_device_ip_version", "ZE_extension_kernel_max_group_size_properties", "ZE_extension_eu_count",
        "ZE_extension_pci_properties", "ZE_experimental_relaxed_allocation_limits", "ZE_extension_subgroups",
        "ZE_extension_bfloat16_conversions"};
    uint32_t known = std::size(NAMES);
    for (uint32_t i = 0; properties && i < std::min(*count, known); i++) {
        snprintf(properties[i].name, sizeof properties[i].name, "%s", NAMES[i]);
        properties[i].version = ze_version(1, 0);
    }
    *count = known;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t, const char *name, void **address) {
    Dl_info own{};
    dladdr(&driver, &own);
    void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *address = library ? dlsym(library, name) : nullptr;
    trace("%s %s: %s", __func__, name, *address ? "yes" : "no");
    return *address ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

ZE_API ze_result_t zeDeviceGet(ze_driver_handle_t, uint32_t *count, ze_device_handle_t *devices) {
    TRACE();
    *count = 1;
    if (devices) *devices = &device;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetRootDevice(ze_device_handle_t, ze_device_handle_t *root) {
    TRACE();
    *root = nullptr;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetSubDevices(ze_device_handle_t, uint32_t *count, ze_device_handle_t *) {
    TRACE();
    *count = 0;
    return ZE_RESULT_SUCCESS;
}

static void fill_extensions(void *chain) {
    for (auto next = static_cast<ze_uint32_property_t *>(chain); next;
         next = static_cast<ze_uint32_property_t *>(next->pNext)) {
        if (next->stype == ZE_STRUCTURE_TYPE_DEVICE_IP_VERSION_EXT) next->value = number_setting("IP", 0);
        else if (next->stype == ZE_STRUCTURE_TYPE_EU_COUNT_EXT) next->value = number_setting("CORES", 1) * 8;
        else if (next->stype == ZE_STRUCTURE_TYPE_FLOAT_ATOMIC_EXT_PROPERTIES) {
            auto atomics = reinterpret_cast<ze_float_atomic_ext_properties_t *>(next);
            atomics->fp16Flags = 0;
            atomics->fp32Flags = atomics->fp64Flags = 0x3F;  // every kind, in global and in local memory
        } else trace("    nothing is known of structure %#x", next->stype);
    }
}

ZE_API ze_result_t zeDeviceGetProperties(ze_device_handle_t, ze_device_properties_t *properties) {
    TRACE();
    uint32_t id = number_setting("ID", 0);
    properties->type = ZE_DEVICE_TYPE_GPU;
    properties->vendorId = 0x8086;
    properties->deviceId = id;
    properties->flags = properties->subdeviceId = properties->maxCommandQueuePriority = 0;
    properties->coreClockRate = 1600;
    properties->maxMemAllocSize = number_setting("MEMORY", 1ull << 40);
    properties->maxHardwareContexts = 65536;
    properties->numThreadsPerEU = 8;
    properties->physicalEUSimdWidth = number_setting("SIMD", 16);
    properties->numEUsPerSubslice = number_setting("THREADS", 64) / 8;
    properties->numSubslicesPerSlice = number_setting("CORES", 1);
    properties->numSlices = 1;
    // Cycles a second in the newer structure, nanoseconds a cycle in the older.
    properties->timerResolution = properties->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2 ? 1000000000 : 1;
    properties->timestampValidBits = properties->kernelTimestampValidBits = 64;
    memset(properties->uuid, 0, sizeof properties->uuid);
    memcpy(properties->uuid, &id, sizeof id);
    snprintf(properties->name, sizeof properties->name, "%s", setting("NAME", "software GPU").c_str());
    fill_extensions(properties->pNext);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetComputeProperties(ze_device_handle_t, ze_device_compute_properties_t *properties) {
    TRACE();
    properties->maxTotalGroupSize = 1024;
    properties->maxGroupSizeX = properties->maxGroupSizeY = properties->maxGroupSizeZ = 1024;
    properties->maxGroupCountX = properties->maxGroupCountY = properties->maxGroupCountZ = UINT32_MAX;
    properties->maxSharedLocalMemory = number_setting("SLM", 65536);
    properties->numSubGroupSizes = 0;
    for (uint32_t size = number_setting("SIMD", 16); size <= 32; size *= 2)
        properties->subGroupSizes[properties->numSubGroupSizes++] = size;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetModuleProperties(ze_device_handle_t, ze_device_module_properties_t *properties) {
    TRACE();
    properties->spirvVersionSupported = ze_version(1, 4);
    properties->flags = 0xF;  // f16, f64, 64-bit atomics, dp4a
    properties->fp16flags = properties->fp32flags = properties->fp64flags = 0x7F;  // everything, and in hardware
    properties->maxArgumentsSize = 2048;
    properties->printfBufferSize = 4 << 20;
    memset(properties->nativeKernelSupported, 0, sizeof properties->nativeKernelSupported);
    fill_extensions(properties->pNext);
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t, uint32_t *count,
                                                          ze_command_queue_group_properties_t *properties) {
    TRACE();
    if (properties && *count) {
        properties->flags = 0x7;  // compute, copies, cooperative kernels
        properties->maxMemoryFillPatternSize = 128;
        properties->numQueues = 1;
    }
    *count = 1;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetMemoryProperties(ze_device_handle_t, uint32_t *count,
                                               ze_device_memory_properties_t *properties) {
    TRACE();
    if (properties && *count) {
        properties->flags = 0;
        properties->maxClockRate = 3200;
        properties->maxBusWidth = 1024;
        properties->totalSize = number_setting("MEMORY", 1ull << 40);
        snprintf(properties->name, sizeof properties->name, "memory");
    }
    *count = 1;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetMemoryAccessProperties(ze_device_handle_t,
                                                     ze_device_memory_access_properties_t *properties) {
    TRACE();
    // Reads, writes, atomics, concurrently: of everything but memory that the system allocated.
    properties->hostAllocCapabilities = properties->deviceAllocCapabilities =
        properties->sharedSingleDeviceAllocCapabilities = 0xF;
    properties->sharedCrossDeviceAllocCapabilities = 1;
    properties->sharedSystemAllocCapabilities = 0;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetCacheProperties(ze_device_handle_t, uint32_t *count,
                                              ze_device_cache_properties_t *properties) {
    TRACE();
    if (properties && *count) {
        properties->flags = 0;
        properties->cacheSize = 16 << 20;
    }
    *count = 1;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceGetImageProperties(ze_device_handle_t, ze_device_image_properties_t *properties) {
    TRACE();
    ze_base_properties_t begin = *properties;
    *properties = {};
    static_cast<ze_base_properties_t &>(*properties) = begin;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDevicePciGetPropertiesExt(ze_device_handle_t, ze_pci_ext_properties_t *properties) {
    TRACE();
    properties->address = {0, 3, 0, 0};
    properties->maxSpeed = {5, 16, 64000000000};
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeDeviceCanAccessPeer(ze_device_handle_t, ze_device_handle_t, ze_bool_t *can) {
    TRACE();
    *can = 0;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeContextCreate(ze_driver_handle_t, const void *, ze_context_handle_t *context) {
    TRACE();
    *context = new int;
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zeContextDestroy(ze_context_handle_t context) {
    TRACE();
    delete static_cast<int *>(context);
    return ZE_RESULT_SUCCESS;
}
