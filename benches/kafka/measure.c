// See measure.h.
#define _GNU_SOURCE
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client.h"

enum { ERROR_CODES = 128 };

const char *server_pids;
long done, sent_count;

static long errors[ERROR_CODES];
static double *latencies;
static long latency_count, latency_capacity;
static double server_cpu_mark, own_cpu_mark;

// CPU seconds of all threads of a process.
static double cpu_of(int pid) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) die("no process %d", pid);
    line[fread(line, 1, sizeof line - 1, file)] = 0;
    fclose(file);
    const char *after_name = strrchr(line, ')');
    unsigned long user = 0, kernel = 0;
    if (!after_name || sscanf(after_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                              &user, &kernel) != 2)
        die("%s cannot be read", path);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double server_cpu(void) {
    const char *at = server_pids;
    double sum = cpu_of(atoi(at));
    while ((at = strchr(at, ','))) sum += cpu_of(atoi(++at));
    return sum;
}

static double own_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

void begin_phase(void) {
    done = latency_count = sent_count = 0;
    memset(errors, 0, sizeof errors);
    server_cpu_mark = server_cpu();
    own_cpu_mark = own_cpu();
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double percentile_ms(double part) {
    return latencies[(long)((double)(latency_count - 1) * part)] * 1e3;
}

void report(const char *phase, double seconds, long count) {
    printf("{\"phase\":\"%s\",\"seconds\":%.4f,\"count\":%ld,\"server_cpu_s\":%.2f", phase, seconds,
           count, server_cpu() - server_cpu_mark);
    printf(",\"sent\":%ld", sent_count);
    printf(",\"load_cpu_s\":%.2f", own_cpu() - own_cpu_mark);
    if (latency_count > 0) {
        qsort(latencies, (size_t)latency_count, sizeof *latencies, by_size);
        printf(",\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f", percentile_ms(0.5),
               percentile_ms(0.99), percentile_ms(1));
    }
    printf(",\"errors\":{");
    const char *comma = "";
    for (int code = 0; code < ERROR_CODES; code++) {
        if (errors[code] == 0) continue;
        printf("%s\"%d\":%ld", comma, code, errors[code]);
        comma = ",";
    }
    printf("}}\n");
    fflush(stdout);
}

void count_error(int code) { errors[code > 0 && code < ERROR_CODES ? code : 0]++; }

void add_latency(double seconds) {
    if (latency_count == latency_capacity) {
        latency_capacity = latency_capacity ? 2 * latency_capacity : 1 << 20;
        latencies = realloc(latencies, (size_t)latency_capacity * sizeof *latencies);
    }
    latencies[latency_count++] = seconds;
}
