/* A stand-in for NVIDIA's management library (libnvidia-ml.so.1), for tests on machines without a GPU.
 *
 * It answers the functions that the real binding (nvidia-ml-py) calls here, from the text file that NVML_STANDIN names.
 * Structure layouts and error numbers follow nvml.h of CUDA 12/13 as nvidia-ml-py declares them. One fact a line;
 * `name=` comes last because names have spaces; memory in MiB:
 *
 *   driver 580.65.06
 *   cuda 13000
 *   init 18                                      (nvmlInit answers this error)
 *   gpu total=81559 reserved=467 used=1024 cc=9.0 bus=00000000:1B:00.0 uuid=GPU-0 display=0 mig=0 name=NVIDIA H100
 *       (also power=350500 in milliwatts, busy=87 in percent, temperature=64; without them: not supported)
 *   mig gpu=0 total=9856 used=12 uuid=MIG-0 name=NVIDIA H100 MIG 1g.10gb
 *   process gpu=0 pid=4242 used=2048 graphics=0  (used=-1: not known; slice=0 puts it on a MIG slice)
 *   link 0 1 nvlink                              (or a topology level: 0 10 20 30 40 50)
 *   fail nvmlDeviceGetMemoryInfo_v2 3 gpu=1      (without gpu=: for every GPU)
 *   hang nvmlDeviceGetName gpu=1
 *   crash nvmlDeviceGetUUID
 *   absent nvmlDeviceGetMemoryInfo_v2            (as a driver that is older than the function)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_GPUS 64
#define MAX_PROCESSES 256
#define MAX_RULES 64
#define MAX_LINKS 4096
#define MIB (1024ULL * 1024ULL)
#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, FUNCTION_NOT_FOUND = 13 };

typedef struct {
    int parent, slice; /* parent -1: a whole GPU; slice: its number within the parent */
    long total, reserved, used;
    int major, minor, display, mig, index, power, busy, temperature;
    char bus[32], uuid[96], name[96];
} Device;
typedef struct { int gpu, slice, graphics; long used; unsigned pid; } Process;
typedef struct { int first, second, nvlink, level; } Link;
typedef struct { char kind, function[64]; int code, gpu; } Rule;

static Device devices[MAX_GPUS * 2];
static Process processes[MAX_PROCESSES];
static Link links[MAX_LINKS];
static Rule rules[MAX_RULES];
static int device_count, gpu_count, process_count, link_count, rule_count, init_code, cuda_version;
static char driver_version[80];

static long number(const char *line, const char *key, long otherwise) {
    const char *at = strstr(line, key);
    return at ? strtol(at + strlen(key), NULL, 10) : otherwise;
}

static void word(const char *line, const char *key, const char *stop, char *out, size_t size) {
    const char *at = strstr(line, key);
    size_t length;
    out[0] = 0;
    if (!at) return;
    at += strlen(key);
    length = strcspn(at, stop);
    if (length >= size) length = size - 1;
    memcpy(out, at, length);
    out[length] = 0;
}

static void read_device(const char *line, int parent) {
    Device *device = &devices[device_count];
    char capability[16];
    memset(device, 0, sizeof *device);
    device->parent = parent;
    device->index = parent < 0 ? gpu_count++ : parent;
    device->total = number(line, " total=", 0);
    device->reserved = number(line, " reserved=", 0);
    device->used = number(line, " used=", 0);
    device->display = (int)number(line, " display=", 0);
    device->mig = (int)number(line, " mig=", -1);
    device->power = (int)number(line, " power=", -1);
    device->busy = (int)number(line, " busy=", -1);
    device->temperature = (int)number(line, " temperature=", -1);
    word(line, " cc=", " \n", capability, sizeof capability);
    sscanf(capability, "%d.%d", &device->major, &device->minor);
    word(line, " bus=", " \n", device->bus, sizeof device->bus);
    word(line, " uuid=", " \n", device->uuid, sizeof device->uuid);
    word(line, " name=", "\n", device->name, sizeof device->name);
    if (parent >= 0)
        for (int i = 0; i < device_count; i++) {
            device->slice += devices[i].parent == parent;
            if (devices[i].parent < 0 && devices[i].index == parent) {
                device->major = devices[i].major;
                device->minor = devices[i].minor;
                memcpy(device->bus, devices[i].bus, sizeof device->bus);
            }
        }
    device_count++;
}

static void read_rule(char kind, const char *line) {
    Rule *rule = &rules[rule_count++];
    memset(rule, 0, sizeof *rule);
    rule->kind = kind;
    sscanf(line, "%*s %63s %d", rule->function, &rule->code);
    rule->gpu = (int)number(line, " gpu=", -1);
}

static void read_facts(void) {
    const char *path = getenv("NVML_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512], kind[32], what[32];
    device_count = gpu_count = process_count = link_count = rule_count = init_code = cuda_version = 0;
    if (!file) { init_code = 9; return; }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s", kind) != 1) continue;
        if (!strcmp(kind, "driver")) sscanf(line, "%*s %79s", driver_version);
        else if (!strcmp(kind, "cuda")) sscanf(line, "%*s %d", &cuda_version);
        else if (!strcmp(kind, "init")) sscanf(line, "%*s %d", &init_code);
        else if (!strcmp(kind, "gpu")) read_device(line, -1);
        else if (!strcmp(kind, "mig")) read_device(line, (int)number(line, " gpu=", 0));
        else if (!strcmp(kind, "process")) {
            Process *process = &processes[process_count++];
            process->gpu = (int)number(line, " gpu=", 0);
            process->slice = (int)number(line, " slice=", -1);
            process->graphics = (int)number(line, " graphics=", 0);
            process->used = number(line, " used=", 0);
            process->pid = (unsigned)number(line, " pid=", 0);
        } else if (!strcmp(kind, "link")) {
            Link *link = &links[link_count++];
            sscanf(line, "%*s %d %d %31s", &link->first, &link->second, what);
            link->nvlink = !strcmp(what, "nvlink");
            link->level = link->nvlink ? 50 : atoi(what);
        } else if (!strcmp(kind, "fail")) read_rule('f', line);
        else if (!strcmp(kind, "hang")) read_rule('h', line);
        else if (!strcmp(kind, "crash")) read_rule('c', line);
        else if (!strcmp(kind, "absent")) read_rule('a', line);
    }
    fclose(file);
}

static int rule_for(const char *function, const Device *device) {
    for (int i = 0; i < rule_count; i++) {
        if (strcmp(rules[i].function, function)) continue;
        if (rules[i].gpu >= 0 && (!device || device->index != rules[i].gpu)) continue;
        if (rules[i].kind == 'h') for (;;) sleep(3600);
        if (rules[i].kind == 'c') abort();
        return rules[i].kind == 'a' ? FUNCTION_NOT_FOUND : rules[i].code;
    }
    return SUCCESS;
}

#define CHECK(device) do { int code_ = rule_for(__func__, device); if (code_) return code_; } while (0)

static const Device *gpu_at(unsigned index) {
    for (int i = 0; i < device_count; i++)
        if (devices[i].parent < 0 && devices[i].index == (int)index) return &devices[i];
    return NULL;
}

API int nvmlInitWithFlags(unsigned flags) { (void)flags; read_facts(); CHECK(NULL); return init_code; }
API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlShutdown(void) { return SUCCESS; }

API const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "The operation was successful";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 9: return "Driver Not Loaded";
    case FUNCTION_NOT_FOUND: return "Function Not Found";
    case 15: return "GPU is lost";
    case 18: return "RM has detected an NVML/RM version mismatch.";
    case 999: return "Unknown Error";
    default: return "Stand-in error";
    }
}

API int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    CHECK(NULL);
    snprintf(out, size, "%s", driver_version);
    return SUCCESS;
}
API int nvmlSystemGetCudaDriverVersion(int *out) { CHECK(NULL); *out = cuda_version; return SUCCESS; }
API int nvmlSystemGetCudaDriverVersion_v2(int *out) { CHECK(NULL); *out = cuda_version; return SUCCESS; }
API int nvmlDeviceGetCount_v2(unsigned *out) { CHECK(NULL); *out = (unsigned)gpu_count; return SUCCESS; }

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, const Device **out) {
    *out = gpu_at(index);
    if (!*out) return INVALID_ARGUMENT;
    CHECK(*out);
    return SUCCESS;
}
API int nvmlDeviceGetName(const Device *device, char *out, unsigned size) {
    CHECK(device);
    snprintf(out, size, "%s", device->name);
    return SUCCESS;
}
API int nvmlDeviceGetUUID(const Device *device, char *out, unsigned size) {
    CHECK(device);
    snprintf(out, size, "%s", device->uuid);
    return SUCCESS;
}

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;

API int nvmlDeviceGetMemoryInfo(const Device *device, Memory *out) {
    CHECK(device); /* version 1 counts the driver's reserve as used */
    out->total = device->total * MIB;
    out->used = (device->used + device->reserved) * MIB;
    out->free = out->total - out->used;
    return SUCCESS;
}
API int nvmlDeviceGetMemoryInfo_v2(const Device *device, MemoryV2 *out) {
    CHECK(device);
    if (out->version != (2u << 24 | sizeof(MemoryV2))) return 25;
    out->total = device->total * MIB;
    out->reserved = device->reserved * MIB;
    out->used = device->used * MIB;
    out->free = out->total - out->used - out->reserved;
    return SUCCESS;
}
API int nvmlDeviceGetPowerUsage(const Device *device, unsigned *out) {
    CHECK(device);
    *out = (unsigned)device->power;
    return device->power < 0 ? NOT_SUPPORTED : SUCCESS;
}
API int nvmlDeviceGetUtilizationRates(const Device *device, unsigned out[2]) {
    CHECK(device); /* gpu, memory */
    out[0] = out[1] = (unsigned)device->busy;
    return device->busy < 0 ? NOT_SUPPORTED : SUCCESS;
}
API int nvmlDeviceGetTemperature(const Device *device, unsigned sensor, unsigned *out) {
    CHECK(device);
    *out = (unsigned)device->temperature;
    return device->temperature < 0 || sensor ? NOT_SUPPORTED : SUCCESS;
}
API int nvmlDeviceGetCudaComputeCapability(const Device *device, int *major, int *minor) {
    CHECK(device);
    *major = device->major;
    *minor = device->minor;
    return SUCCESS;
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

API int nvmlDeviceGetPciInfo_v3(const Device *device, Pci *out) {
    CHECK(device);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", device->bus);
    sscanf(device->bus, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    return SUCCESS;
}
API int nvmlDeviceGetDisplayActive(const Device *device, int *out) { CHECK(device); *out = device->display; return SUCCESS; }
API int nvmlDeviceGetDisplayMode(const Device *device, int *out) { CHECK(device); *out = device->display; return SUCCESS; }

typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } ProcessInfo;

static int list_processes(const Device *device, unsigned *count, ProcessInfo *out, int graphics) {
    unsigned found = 0, room = *count;
    for (int i = 0; i < process_count; i++) {
        const Process *process = &processes[i];
        if (process->gpu != device->index || process->graphics != graphics) continue;
        if (device->parent >= 0 && process->slice != device->slice) continue;
        if (out && found < room) {
            out[found].pid = process->pid;
            out[found].used = process->used < 0 ? ~0ULL : process->used * MIB;
            out[found].gpu_instance = out[found].compute_instance = 0xFFFFFFFF;
        }
        found++;
    }
    *count = found;
    return found > (out ? room : 0) ? INSUFFICIENT_SIZE : SUCCESS;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(const Device *device, unsigned *count, ProcessInfo *out) {
    CHECK(device);
    return list_processes(device, count, out, 0);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(const Device *device, unsigned *count, ProcessInfo *out) {
    CHECK(device);
    return list_processes(device, count, out, 1);
}

API int nvmlDeviceGetMigMode(const Device *device, unsigned *current, unsigned *pending) {
    CHECK(device);
    if (device->mig < 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)device->mig;
    return SUCCESS;
}
API int nvmlDeviceGetMaxMigDeviceCount(const Device *device, unsigned *out) { CHECK(device); *out = 7; return SUCCESS; }
API int nvmlDeviceGetMigDeviceHandleByIndex(const Device *device, unsigned index, const Device **out) {
    CHECK(device);
    for (int i = 0; i < device_count; i++)
        if (devices[i].parent == device->index && devices[i].slice == (int)index) {
            *out = &devices[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

static const Link *link_between(const Device *first, const Device *second) {
    for (int i = 0; i < link_count; i++) {
        const Link *link = &links[i];
        if ((link->first == first->index && link->second == second->index) ||
            (link->first == second->index && link->second == first->index)) return link;
    }
    return NULL;
}
API int nvmlDeviceGetP2PStatus(const Device *first, const Device *second, int capability, int *out) {
    const Link *link = link_between(first, second);
    CHECK(first);
    *out = capability == 2 && link && link->nvlink ? 0 : 5;
    return SUCCESS;
}
API int nvmlDeviceGetTopologyCommonAncestor(const Device *first, const Device *second, int *out) {
    const Link *link = link_between(first, second);
    CHECK(first);
    *out = link ? link->level : 50;
    return SUCCESS;
}
