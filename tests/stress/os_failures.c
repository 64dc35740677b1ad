/* os_failures.c - makes each system call of each script fail in turn: alone, with all that follow, and at
 * random; with several errors.
 *
 *     os_failures [ERRORS [EVERY]]     the first so many of the errors below, or 0: one of the five for each
 *                                      call, by turns; of the calls of a script every so manieth
 *     os_failures again SCRIPT AT HOW ERROR    the one plan of a line that says what failed
 *
 * The engine is linked in, and os_calls.c stands in for its system calls. For each call of a script one
 * process runs in which that call fails. No block may be lost or change, a refused request returns NULL
 * with ENOMEM, and once system calls succeed again the whole script must succeed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
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
    CHECK(read(ends[0], &count, sizeof count) == sizeof count, "%s: no count", script->name);
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

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "again") == 0) {
        again(argv[2],
              (struct os_plan){argument(argc, argv, 3, 0), (enum os_how)argument(argc, argv, 4, 0),
                               (int)argument(argc, argv, 5, 0)});
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "script") == 0)
        return be_script((unsigned)argument(argc, argv, 2, 0));
    unsigned long which = argument(argc, argv, 1, ERRORS), every = argument(argc, argv, 2, 1);
    unsigned long indices = 0, processes = 0;
    CHECK(which <= ERRORS && every > 0, "0 to %d errors, every 1 call or more", ERRORS);
    watchdog(every > 1 ? 200 : 7000, "failures of the system");
    proc_no_core_files();
    free(malloc(1));
    /* Here records of addresses that were given up stayed charged. */
    again("live", (struct os_plan){9, OS_ON, ENOMEM});
    /* Here freed mappings, for which there were no records, stayed charged. */
    for (unsigned long at = 36; at <= 60; at += 2)
        again("limit", (struct os_plan){at, OS_ON, EPERM});
    for (unsigned s = 0; s < os_script_count; s++) {
        unsigned long count = count_calls(s);
        CHECK(count > 0, "%s makes no call of the system", os_scripts[s].name);
        indices += count;
        for (unsigned long at = 1 + s % every; at <= count; at += every)
            for (unsigned e = 0; e < (which ? which : 1); e++)
                for (int how = 0; how < OS_HOWS; how++) {
                    if (which == 0 && how != (int)((at / every + s) % OS_HOWS)) continue;
                    int error = errors[which ? e : (at / every / OS_HOWS + s) % ERRORS];
                    in_a_process(s, (struct os_plan){at, (enum os_how)how, error});
                    processes++;
                }
    }
    printf("%u scripts, %lu indices, %lu processes, all survived\n", os_script_count, indices,
           processes);
    return 0;
}
