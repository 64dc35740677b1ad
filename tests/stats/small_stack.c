/* small_stack.c - threads with the smallest possible stack, 16 KiB, ask for the statistics. The call may use
 * a quarter of it: the test fills the stack with a pattern first and reads it afterwards. So may malloc, also where it
 * refreshes a live page.
 *
 *     small_stack
 *     small_stack exit FILE   ends by exit() in such a thread, whose stack is mapped from FILE
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats.h"

enum {
    STACK_SIZE = 16384, /* PTHREAD_STACK_MIN on most machines */
    MOST = 4096,        /* bytes that a call may use */
    BELOW = 128,        /* of them, the frame of the caller */
    PAINT = 0xa5,
    JSON_SIZE = 1 << 18,
};

/* At the lowest addresses of the stack; the rest of it is painted. */
typedef struct {
    size_t base; /* offset of the caller's frame; of the thread */
} head_t;

static char *stack;
static FILE *sink;
static char json[JSON_SIZE], sink_buffer[4096];

static void get(void) {
    uint64_t value;
    CHECK(hakmem_stats_get("total.live", &value) == 0 && value > 0, "nothing is live");
}
static void write_json(void) { CHECK(hakmem_stats_json(json, sizeof json) > 1000, "no JSON"); }
static void read_info(void) { CHECK(API(mallinfo2)().uordblks > 0, "nothing is live"); }
static void write_info(void) { CHECK(API(malloc_info)(0, sink) == 0, "malloc_info failed"); }
static void write_text(void) { API(malloc_stats)(); }
static void end(void) { exit(0); }

/* With HAKMEM_LIVE=1 and no helper, some of these calls refresh the live page, all parts of it. */
static void allocate(void) {
    enum { TURNS = 75, PAUSE_US = 20000, SIZE = 3 << 20 };
    for (int i = 0; i < TURNS; i++) {
        API(free)(API(malloc)(SIZE));
        usleep(PAUSE_US);
    }
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {{"hakmem_stats_get", get},
             {"hakmem_stats_json", write_json},
             {"mallinfo2", read_info},
             {"malloc_info", write_info},
             {"malloc_stats", write_text}};

static void *run(void *call) {
    ((head_t *)(void *)stack)->base = (size_t)((char *)__builtin_frame_address(0) - stack);
    ((void (*)(void))call)();
    return NULL;
}

static void run_on_small_stack(void (*call)(void)) {
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(sysconf(_SC_THREAD_STACK_MIN) <= STACK_SIZE, "stacks are larger here");
    memset(stack + sizeof(head_t), PAINT, STACK_SIZE - sizeof(head_t));
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stack, STACK_SIZE) == 0, "no such stack");
    CHECK(pthread_create(&thread, &attributes, run, (void *)call) == 0, "no thread");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* The longest way down from the caller's frame to where the paint still is. */
static void check_use(const char *name) {
    size_t low = sizeof(head_t), base = ((head_t *)(void *)stack)->base;
    CHECK(base > low && base < STACK_SIZE, "%s: the thread did not run", name);
    while ((unsigned char)stack[low] == PAINT) low++;
    printf("%s: %zu bytes of stack\n", name, base - low);
    CHECK(base - low <= MOST + BELOW, "%s uses %zu bytes of stack", name, base - low);
}

static void map_stack(int file) {
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(stack != MAP_FAILED, "no stack");
}

/* A process that ends on a small stack with a report of the statistics. */
static void check_end(const char *form, const char *name) {
    int status, file = memfd_create("stack", 0);
    char number[16];
    CHECK(file >= 0 && ftruncate(file, STACK_SIZE) == 0, "no file for the stack");
    snprintf(number, sizeof number, "%d", file);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("HAKMEM_STATS", form, 1);
        setenv("HAKMEM_STATS_FILE", name, 1);
        setenv("HAKMEM_TINY_STATS_DUMP", "1", 1);
        execl("/proc/self/exe", "small_stack", "exit", number, (char *)NULL);
        _exit(99);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "exit with %s to \"%s\": status %#x",
          form, name, (unsigned)status);
    munmap(stack, STACK_SIZE);
    map_stack(file);
    check_use(form);
    close(file);
}

int main(int argc, char **argv) {
    watchdog(60, "small_stack");
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3) {
        map_stack(atoi(argv[2]));
        run_on_small_stack(end);
    }
    map_stack(-1);
    for (int size = 1; size < 70000; size = size * 3 / 2 + 1) CHECK(API(malloc)((size_t)size), "0");
    for (int buffered = 0; buffered < 2; buffered++) {
        sink = fopen("/dev/null", "w");
        CHECK(sink != NULL, "no /dev/null");
        setvbuf(sink, sink_buffer, buffered ? _IOFBF : _IONBF, sizeof sink_buffer);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            calls[i].call(); /* what libc makes at a first call is not meant */
            run_on_small_stack(calls[i].call);
            check_use(calls[i].name);
        }
        fclose(sink);
    }
    run_on_small_stack(allocate);
    check_use("malloc");
    check_end("json", "/dev/null");
    check_end("text", "");
    check_end("text", "/nowhere/at/all");
    return 0;
}
