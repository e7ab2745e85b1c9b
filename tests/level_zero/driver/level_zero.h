// The part of Level Zero's binary interface that the SYCL runtime uses: types, structures and constants under the names
// of the specification (version 1.13). Flags and enumerations are 32-bit numbers; handles are pointers.
#pragma once

#include <cstddef>
#include <cstdint>

#define ZE_API extern "C" __attribute__((visibility("default")))

using ze_driver_handle_t = void *;
using ze_device_handle_t = void *;
using ze_context_handle_t = void *;
using ze_command_list_handle_t = void *;
using ze_event_pool_handle_t = void *;
using ze_event_handle_t = void *;
using ze_module_handle_t = void *;
using ze_module_build_log_handle_t = void *;
using ze_kernel_handle_t = void *;
using ze_bool_t = uint8_t;

enum ze_result_t : uint32_t {
    ZE_RESULT_SUCCESS = 0,
    ZE_RESULT_NOT_READY = 1,
    ZE_RESULT_ERROR_DEVICE_LOST = 0x70000001,
    ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY = 0x70000003,
    ZE_RESULT_ERROR_MODULE_BUILD_FAILURE = 0x70000004,
    ZE_RESULT_ERROR_MODULE_LINK_FAILURE = 0x70000005,
    ZE_RESULT_ERROR_UNSUPPORTED_FEATURE = 0x78000003,
    ZE_RESULT_ERROR_INVALID_ARGUMENT = 0x78000004,
    ZE_RESULT_ERROR_INVALID_KERNEL_NAME = 0x78000011,
    ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION = 0x78000013,
    ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX = 0x78000015,
    ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE = 0x78000016,
    ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED = 0x78000018,
};

enum ze_structure_type_t : uint32_t {
    ZE_STRUCTURE_TYPE_MODULE_PROGRAM_EXP_DESC = 0x20002,
    ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2 = 0x20006,
    ZE_STRUCTURE_TYPE_KERNEL_PREFERRED_GROUP_SIZE_PROPERTIES = 0x21,
    ZE_STRUCTURE_TYPE_FLOAT_ATOMIC_EXT_PROPERTIES = 0x10003,
    ZE_STRUCTURE_TYPE_EU_COUNT_EXT = 0x10005,
    ZE_STRUCTURE_TYPE_DEVICE_IP_VERSION_EXT = 0x1000F,
    ZE_STRUCTURE_TYPE_KERNEL_MAX_GROUP_SIZE_EXT_PROPERTIES = 0x10013,
};
enum : uint32_t {
    ZE_MODULE_FORMAT_IL_SPIRV = 0,
    ZE_MODULE_PROPERTY_FLAG_IMPORTS = 1,
    ZE_COMMAND_QUEUE_FLAG_IN_ORDER = 2,
    ZE_DEVICE_TYPE_GPU = 1,
};
enum ze_memory_type_t : uint32_t {
    ZE_MEMORY_TYPE_UNKNOWN = 0,
    ZE_MEMORY_TYPE_HOST = 1,
    ZE_MEMORY_TYPE_DEVICE = 2,
    ZE_MEMORY_TYPE_SHARED = 3,
};
constexpr uint32_t ze_version(uint32_t major, uint32_t minor) { return major << 16 | minor; }

struct ze_base_properties_t {  // how every structure begins: its type, and the next one of a chain
    ze_structure_type_t stype;
    void *pNext;
};

struct ze_driver_properties_t : ze_base_properties_t {
    uint8_t uuid[16];
    uint32_t driverVersion;
};
struct ze_driver_extension_properties_t {
    char name[256];
    uint32_t version;
};

struct ze_device_properties_t : ze_base_properties_t {
    uint32_t type, vendorId, deviceId, flags, subdeviceId, coreClockRate;
    uint64_t maxMemAllocSize;
    uint32_t maxHardwareContexts, maxCommandQueuePriority, numThreadsPerEU, physicalEUSimdWidth, numEUsPerSubslice,
        numSubslicesPerSlice, numSlices;
    uint64_t timerResolution;
    uint32_t timestampValidBits, kernelTimestampValidBits;
    uint8_t uuid[16];
    char name[256];
};
struct ze_device_compute_properties_t : ze_base_properties_t {
    uint32_t maxTotalGroupSize, maxGroupSizeX, maxGroupSizeY, maxGroupSizeZ, maxGroupCountX, maxGroupCountY,
        maxGroupCountZ, maxSharedLocalMemory, numSubGroupSizes, subGroupSizes[8];
};
struct ze_device_module_properties_t : ze_base_properties_t {
    uint32_t spirvVersionSupported, flags, fp16flags, fp32flags, fp64flags, maxArgumentsSize, printfBufferSize;
    uint8_t nativeKernelSupported[16];
};
struct ze_command_queue_group_properties_t : ze_base_properties_t {
    uint32_t flags;
    size_t maxMemoryFillPatternSize;
    uint32_t numQueues;
};
struct ze_device_memory_properties_t : ze_base_properties_t {
    uint32_t flags, maxClockRate, maxBusWidth;
    uint64_t totalSize;
    char name[256];
};
struct ze_device_memory_access_properties_t : ze_base_properties_t {
    uint32_t hostAllocCapabilities, deviceAllocCapabilities, sharedSingleDeviceAllocCapabilities,
        sharedCrossDeviceAllocCapabilities, sharedSystemAllocCapabilities;
};
struct ze_device_cache_properties_t : ze_base_properties_t {
    uint32_t flags;
    size_t cacheSize;
};
struct ze_device_image_properties_t : ze_base_properties_t {
    uint32_t maxImageDims1D, maxImageDims2D, maxImageDims3D;
    uint64_t maxImageBufferSize;
    uint32_t maxImageArraySlices, maxSamplers, maxReadImageArgs, maxWriteImageArgs;
};
struct ze_pci_ext_properties_t : ze_base_properties_t {
    struct { uint32_t domain, bus, device, function; } address;
    struct { int32_t genVersion, width; int64_t maxBandwidth; } maxSpeed;
};
struct ze_uint32_property_t : ze_base_properties_t {  // every extension that is one number: IP version, EU count ...
    uint32_t value;
};
struct ze_float_atomic_ext_properties_t : ze_base_properties_t {
    uint32_t fp16Flags, fp32Flags, fp64Flags;
};

struct ze_memory_allocation_properties_t : ze_base_properties_t {
    ze_memory_type_t type;
    uint64_t id, pageSize;
};

struct ze_command_queue_desc_t : ze_base_properties_t {
    uint32_t ordinal, index, flags, mode, priority;
};
struct ze_event_pool_desc_t : ze_base_properties_t {
    uint32_t flags, count;
};
struct ze_kernel_timestamp_result_t {
    struct { uint64_t kernelStart, kernelEnd; } global, context;
};

struct ze_module_desc_t : ze_base_properties_t {
    uint32_t format;
    size_t inputSize;
    const uint8_t *pInputModule;
    const char *pBuildFlags;
    const void *pConstants;
};
struct ze_module_program_exp_desc_t : ze_base_properties_t {  // several modules, which are linked
    uint32_t count;
    const size_t *inputSizes;
    const uint8_t **pInputModules;
    const char **pBuildFlags;
    const void **pConstants;
};
struct ze_module_properties_t : ze_base_properties_t {
    uint32_t flags;
};
struct ze_kernel_desc_t : ze_base_properties_t {
    uint32_t flags;
    const char *pKernelName;
};
struct ze_kernel_properties_t : ze_base_properties_t {
    uint32_t numKernelArgs, requiredGroupSizeX, requiredGroupSizeY, requiredGroupSizeZ, requiredNumSubGroups,
        requiredSubgroupSize, maxSubgroupSize, maxNumSubgroups, localMemSize, privateMemSize, spillMemSize;
    uint8_t uuid[32];
};
struct ze_group_count_t {
    uint32_t groupCountX, groupCountY, groupCountZ;
};
struct ze_group_size_t {
    uint32_t groupSizeX, groupSizeY, groupSizeZ;
};
