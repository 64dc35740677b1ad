/* os_failures.c - makes each system call of each script fail in turn: alone, with all that follow, and at
 * random; with several errors.
 *
 *     os_failures [EVERY]              every so manieth call of a script, in one way and with one error by turns
 *     os_failures all [FILE [SECONDS]] every call in every way with every error, on all CPUs. FILE keeps what is
 *                                      done, script by script; a run goes on from there, and ends on time
 *     os_failures again SCRIPT AT HOW ERROR    the one plan of a line that says what failed
 *
 * The engine is linked in, and os_calls.c stands in for its system calls. For each call of a script one
 * process runs in which that call fails. No block may be lost or change, a refused request returns NULL
 * with ENOMEM, and once system calls succeed again the whole script must succeed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "os_calls.h"
#include "os_scripts.h"
#include "proc.h"

static const int errors[] = {ENOMEM, EPERM, EAGAIN, EINVAL, ENOSYS};
enum { ERRORS = sizeof errors / sizeof *errors, CHILD_SECONDS = 100 };

static const struct os_plan well;

/* Runs the script while the plan is at work, and once more when the system is well. */
static void run(const struct os_script *script) {
    script->run();
    os_calls_plan(well);
    os_scripts_refused();
    script->run();
    unsigned long refused = os_scripts_refused();
    CHECK(refused == 0, "%lu requests fail although the system is well", refused);
    /* A hardened block whose guard the system does not take away is nobody's from then on. */
    bool may_lose = script->setting && strstr(script->setting, "HARDENED");
    size_t live = mallinfo2().hblkhd;
    CHECK(live == 0 || may_lose, "%zu bytes of huge blocks are live", live);
}

static void become(unsigned index, const char *setting, struct os_plan plan) {
    char words[64], number[16],
        *argv[] = {(char[]){"os_failures"}, (char[]){"script"}, number, NULL};
    snprintf(words, sizeof words, OS_PLAN "=%lu %d %d", plan.at, (int)plan.how, plan.error);
    snprintf(number, sizeof number, "%u", index);
    char *environment[] = {words, (char *)(uintptr_t)setting, NULL};
    execve("/proc/self/exe", argv, environment);
    _exit(9);
}

/* One script in a process. Without a setting the process is a copy of this one, in which the engine is at
 * work already; else a new one, whose first call is a call of the plan. */
static void in_a_process(unsigned index, struct os_plan plan) {
    const struct os_script *script = &os_scripts[index];
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        watchdog(CHILD_SECONDS, script->name);
        if (script->setting) become(index, script->setting, plan);
        os_calls_plan(plan);
        run(script);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0,
          "%s: plan \"%lu %d %d\": the process ends with %#x", script->name, plan.at, (int)plan.how,
          plan.error, (unsigned)status);
}

/* How many calls there are, written to `to` by a process in which none fails. */
static unsigned long count_calls(unsigned index) {
    const struct os_script *script = &os_scripts[index];
    int ends[2], status;
    unsigned long count = 0;
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        watchdog(CHILD_SECONDS, script->name);
        dup2(ends[1], STDOUT_FILENO);
        if (script->setting) become(index, script->setting, well);
        os_calls_plan(well);
        script->run();
        count = os_calls_count();
        _exit(write(STDOUT_FILENO, &count, sizeof count) != sizeof count);
    }
    CHECK(read(ends[0], &count, sizeof count) == sizeof count && count > 0,
          "%s makes no call of the system", script->name);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s fails where no call fails: %#x",
          script->name, (unsigned)status);
    close(ends[0]);
    close(ends[1]);
    return count;
}

/* The new process of a script with a setting. */
static int be_script(unsigned index) {
    const char *plan = getenv(OS_PLAN);
    watchdog(CHILD_SECONDS, os_scripts[index].name);
    proc_no_core_files();
    if (plan && *plan != '0') {
        run(&os_scripts[index]);
        return 0;
    }
    os_scripts[index].run();
    unsigned long count = os_calls_count();
    return write(STDOUT_FILENO, &count, sizeof count) != sizeof count;
}

static void again(const char *name, struct os_plan plan) {
    unsigned s = 0;
    while (s < os_script_count && strcmp(os_scripts[s].name, name) != 0) s++;
    CHECK(s < os_script_count, "no script is called %s", name);
    in_a_process(s, plan);
}

/* Every call of every script, by turns in one way with one error. */
static void some(unsigned long every) {
    unsigned long indices = 0, processes = 0;
    for (unsigned s = 0; s < os_script_count; s++) {
        unsigned long count = count_calls(s);
        indices += count;
        for (unsigned long at = 1 + s % every; at <= count; at += every) {
            unsigned long turn = at / every + s;
            in_a_process(s, (struct os_plan){at, (enum os_how)(turn % OS_HOWS),
                                             errors[turn / OS_HOWS % ERRORS]});
            processes++;
        }
    }
    printf("%u scripts, %lu indices, %lu processes, all survived\n", os_script_count, indices,
           processes);
}

/* ---- Every call in every way: units of one script and one error ------------------------------------ */

enum { UNITS_MOST = 256 };

/* Between the workers. */
struct progress {
    atomic_uint next, done; /* units */
    atomic_ulong indices, processes;
};

/* A file of another build says nothing about this one. */
static uint64_t own_sum(void) {
    uint64_t sum = 0xCBF29CE484222325u;
    unsigned char bytes[4096];
    FILE *file = fopen("/proc/self/exe", "r");
    CHECK(file, "this program cannot be read");
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;)
        for (size_t i = 0; i < got; i++) sum = (sum ^ bytes[i]) * 0x100000001B3u;
    fclose(file);
    return sum;
}

/* Notes the finished units of an earlier run; a new file begins with the sum of this program. */
static void read_finished(FILE *file, bool finished[], struct progress *progress) {
    unsigned long sum, unit, indices, processes;
    char name[64];
    int error;
    fseek(file, 0, SEEK_SET);
    if (fscanf(file, "build %lx\n", &sum) != 1) {
        fprintf(file, "build %lx\n", (unsigned long)own_sum());
        fflush(file);
        return;
    }
    CHECK(sum == own_sum(), "the file is of another build: remove it");
    while (fscanf(file, "%lu %63s %d %lu %lu\n", &unit, name, &error, &indices, &processes) == 5) {
        CHECK(unit < UNITS_MOST && !finished[unit], "unit %lu stands twice in the file", unit);
        finished[unit] = true;
        atomic_fetch_add(&progress->done, 1);
        atomic_fetch_add(&progress->indices, error == errors[0] ? indices : 0);
        atomic_fetch_add(&progress->processes, processes);
    }
}

static void run_unit(unsigned unit, FILE *file, struct progress *progress) {
    unsigned s = unit % os_script_count;
    int error = errors[unit / os_script_count];
    unsigned long count = count_calls(s), processes = 0;
    for (unsigned long at = 1; at <= count; at++)
        for (int how = 0; how < OS_HOWS; how++, processes++)
            in_a_process(s, (struct os_plan){at, (enum os_how)how, error});
    /* One write in append mode: two workers do not mix. */
    fprintf(file, "%u %s %d %lu %lu\n", unit, os_scripts[s].name, error, count, processes);
    fflush(file);
    unsigned done = atomic_fetch_add(&progress->done, 1) + 1;
    atomic_fetch_add(&progress->indices, error == errors[0] ? count : 0);
    atomic_fetch_add(&progress->processes, processes);
    printf("%u of %u: %s, %s: %lu calls, %lu processes\n", done, os_script_count * ERRORS,
           os_scripts[s].name, strerror(error), count, processes);
    fflush(stdout);
}

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static int all(const char *path, unsigned long seconds) {
    static bool finished[UNITS_MOST];
    unsigned units = os_script_count * ERRORS;
    time_t end = now() + (time_t)seconds;
    FILE *file = path ? fopen(path, "a+") : tmpfile();
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(units <= UNITS_MOST && file && progress != MAP_FAILED, "no file, or no memory");
    CHECK(fcntl(fileno(file), F_SETFL, O_APPEND) == 0, "the file cannot be appended to");
    read_finished(file, finished, progress);
    unsigned workers = (unsigned)sysconf(_SC_NPROCESSORS_ONLN), failed = 0;
    for (unsigned i = 0; i < workers; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "no process");
        if (pid > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned unit; (unit = atomic_fetch_add(&progress->next, 1)) < units && now() < end;)
            if (!finished[unit]) run_unit(unit, file, progress);
        _exit(0);
    }
    for (int status; wait(&status) > 0;) failed += status != 0;
    unsigned done = atomic_load(&progress->done);
    printf("%u scripts, %lu indices, %lu processes, %u of %u parts, %s\n", os_script_count,
           atomic_load(&progress->indices), atomic_load(&progress->processes), done, units,
           failed ? "NOT all survived" : "all survived");
    return failed != 0;
}

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "again") == 0) {
        again(argv[2],
              (struct os_plan){argument(argc, argv, 3, 0), (enum os_how)argument(argc, argv, 4, 0),
                               (int)argument(argc, argv, 5, 0)});
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "script") == 0)
        return be_script((unsigned)argument(argc, argv, 2, 0));
    proc_no_core_files();
    free(malloc(1));
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        return all(argc > 2 ? argv[2] : NULL, argument(argc, argv, 3, 7000));
    unsigned long every = argument(argc, argv, 1, 40);
    CHECK(every > 0, "every 1 call or more");
    watchdog(200, "failures of the system");
    /* Here records of addresses that were given up stayed charged. */
    again("live", (struct os_plan){9, OS_ON, ENOMEM});
    /* Here freed mappings, for which there were no records, stayed charged. */
    for (unsigned long at = 36; at <= 60; at += 2)
        again("limit", (struct os_plan){at, OS_ON, EPERM});
    some(every);
    return 0;
}
