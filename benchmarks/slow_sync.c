/* Adds SLOW_MS milliseconds to every sync, so that syncs can be counted by the time they take:

   gcc -shared -fPIC -o slow_sync.so benchmarks/slow_sync.c -ldl
   SLOW_MS=50 LD_PRELOAD=./slow_sync.so python benchmarks/serial_publish.py */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_first(void) {
    const char *ms = getenv("SLOW_MS");
    if (ms) usleep(1000 * atoi(ms));
}

int fsync(int file) {
    static int (*sync)(int);
    if (!sync) sync = dlsym(RTLD_NEXT, "fsync");
    wait_first();
    return sync(file);
}

int fdatasync(int file) {
    static int (*sync)(int);
    if (!sync) sync = dlsym(RTLD_NEXT, "fdatasync");
    wait_first();
    return sync(file);
}
