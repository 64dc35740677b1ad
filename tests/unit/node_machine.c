/* node_machine.c: the made-up machine of node_machine.h. */
#include "node_machine.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "os/open_files.h"
#include "unit.h"

char machine_root[64];
unsigned machine_confined;
__thread unsigned machine_cpu;
unsigned machine_files;
void (*machine_while_read)(void);

int __wrap_sched_getcpu(void);
int __wrap_sched_getcpu(void) { return (int)machine_cpu; }

unsigned __wrap_hak_os_cpu_count(void);
unsigned __wrap_hak_os_cpu_count(void) {
    return machine_confined ? machine_confined : MACHINE_CPUS;
}

bool __wrap_hak_os_cpu_is_allowed(unsigned number);
bool __wrap_hak_os_cpu_is_allowed(unsigned number) {
    return !machine_confined || number < machine_confined;
}

/* The clock stands: no purge is due. */
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return 1000000; }

void __real_hak_os_each_char(const char *path, hak_os_take_t each, void *context);
void __wrap_hak_os_each_char(const char *path, hak_os_take_t each, void *context);
void __wrap_hak_os_each_char(const char *path, hak_os_take_t each, void *context) {
    static const char system[] = "/sys/devices/system/node";
    char place[256];
    machine_files++;
    if (strncmp(path, system, sizeof system - 1) == 0) {
        snprintf(place, sizeof place, "%s%s", machine_root, path + sizeof system - 1);
        path = place;
        void (*call)(void) = machine_while_read;
        machine_while_read = NULL;
        if (call) call();
    }
    __real_hak_os_each_char(path, each, context);
}

static void write_file(const char *name, const char *text) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s", machine_root, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", path);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

void machine_forget(void) { nftw(machine_root, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static void make_folder(void) {
    snprintf(machine_root, sizeof machine_root, "/tmp/hakmem-node-XXXXXX");
    CHECK(mkdtemp(machine_root) != NULL, "no folder");
}

void machine_describe(const char *online, const char *const *lists) {
    char name[32];
    make_folder();
    if (online) write_file("online", online);
    for (unsigned i = 0; lists && lists[i]; i++) {
        snprintf(name, sizeof name, "node%u/cpulist", i);
        write_file(name, lists[i]);
    }
}
