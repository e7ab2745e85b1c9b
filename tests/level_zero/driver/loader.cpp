// What a loader has besides a driver's functions. The runtime asks for tables of functions, and then looks up each
// function by its name: the tables stay empty, but all of them have to be there.
#include "level_zero.h"
#include "report.h"

struct zel_component_version_t {
    char component_name[64];
    uint32_t spec_version;
    int major, minor, patch;
};

ZE_API ze_result_t zeLoaderInit() {
    TRACE();
    return ZE_RESULT_SUCCESS;
}

ZE_API ze_result_t zelLoaderGetVersionsInternal(size_t *count, zel_component_version_t *versions) {
    TRACE();
    *count = 1;
    if (versions) *versions = {"loader", ze_version(1, 13), 1, 28, 0};
    return ZE_RESULT_SUCCESS;
}

ZE_API void *zeLoaderGetTracingHandle() { return nullptr; }

#define TABLE(name) \
    ZE_API ze_result_t name##ProcAddrTable(uint32_t, void *) { return ZE_RESULT_SUCCESS; }

TABLE(zeGetGlobal) TABLE(zeGetDriver) TABLE(zeGetDevice) TABLE(zeGetContext) TABLE(zeGetCommandQueue)
TABLE(zeGetCommandList) TABLE(zeGetEvent) TABLE(zeGetEventPool) TABLE(zeGetFence) TABLE(zeGetImage) TABLE(zeGetKernel)
TABLE(zeGetMem) TABLE(zeGetModule) TABLE(zeGetModuleBuildLog) TABLE(zeGetPhysicalMem) TABLE(zeGetSampler)
TABLE(zeGetVirtualMem) TABLE(zeGetCommandListExp) TABLE(zeGetEventExp) TABLE(zeGetKernelExp) TABLE(zetGetDevice)
TABLE(zetGetContext) TABLE(zetGetCommandList) TABLE(zetGetKernel) TABLE(zetGetModule) TABLE(zetGetDebug)
TABLE(zetGetMetric) TABLE(zetGetMetricGroup) TABLE(zetGetMetricQuery) TABLE(zetGetMetricQueryPool)
TABLE(zetGetMetricStreamer) TABLE(zetGetTracerExp) TABLE(zesGetDevice) TABLE(zesGetDriver) TABLE(zesGetDiagnostics)
TABLE(zesGetEngine) TABLE(zesGetFabricPort) TABLE(zesGetFan) TABLE(zesGetFirmware) TABLE(zesGetFrequency)
TABLE(zesGetLed) TABLE(zesGetMemory) TABLE(zesGetPerformanceFactor) TABLE(zesGetPower) TABLE(zesGetPsu)
TABLE(zesGetRas) TABLE(zesGetScheduler) TABLE(zesGetStandby) TABLE(zesGetTemperature) TABLE(zelGetTracerApi)

ZE_API void *zelLoaderGetContext() { return nullptr; }

ZE_API ze_result_t zelLoaderTranslateHandleInternal(int, void *handle, void **translated) {
    *translated = handle;
    return ZE_RESULT_SUCCESS;
}
