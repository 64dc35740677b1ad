/* misuse.c - which misuse of blocks an allocator notices: one process for each kind and size.
 *
 *   misuse [KIND]    all kinds, or one of them
 *
 * It calls malloc and free only, so any allocator can be preloaded. Each trial prints
 *     kind <tab> size <tab> call|later|missed|none
 * "call": the process ended in the wrong call or access; "later": while blocks of that size came and
 * went afterwards, or its thread ended; "missed": it ended as if nothing had happened, or hung; "none":
 * the size has no such trial. A process that breaks by chance counts as one that noticed. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

size_t malloc_usable_size(void *block);
int malloc_trim(size_t pad); /* of the allocator, else of glibc: flushes caches */

#define MIB ((size_t)1 << 20)
enum { SECONDS = 2, AGAIN = 3000, OTHERS = 5000, FEW = 50, PAGE = 4096 };

static const size_t sizes[] = {8,    16,    24,    48,     100, 256,    1000,
                               4096, 20000, 65536, 100000, MIB, 4 * MIB};
enum { SIZES = sizeof sizes / sizeof *sizes };

static volatile int *reached; /* shared with the parent: 1 after the wrong call */
static volatile char sink;
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void (*volatile release)(void *) = free; /* else the compiler warns, rightly */
static volatile size_t no_bytes;
static char source[8 * MIB];

__attribute__((noinline)) static char *block_of(size_t size) {
    char *block = malloc(size);
    if (!block) _exit(3);
    for (size_t i = 0; i < size; i += PAGE) block[i] = 1;
    __asm__ volatile("" : "+r"(block)); /* the compiler knows nothing of the block */
    return block;
}

/* ---- wrong frees ---- */

static void *others[OTHERS];

static void free_others(size_t size, int count) {
    if (size >= MIB) count = count > 8 ? 8 : count;
    for (int i = 0; i < count; i++) others[i] = malloc(size);
    for (int i = 0; i < count; i++) release(others[i]);
}
static void twice(size_t size) {
    char *block = block_of(size);
    release(block);
    release(block);
}
static void twice_few(size_t size) {
    char *block = block_of(size);
    for (int i = 0; i < FEW; i++) others[i] = malloc(size);
    release(block);
    for (int i = 0; i < FEW; i++) release(others[i]);
    release(block);
}
static void twice_many(size_t size) {
    int count = size >= MIB ? 20 : size > PAGE ? 500 : OTHERS;
    char *block = block_of(size);
    for (int i = 0; i < count; i++) others[i] = malloc(size);
    release(block);
    for (int i = 0; i < count; i++) release(others[i]);
    release(block);
}
static void *free_it(void *block) {
    release(block);
    return NULL;
}
static void twice_other_thread(size_t size) {
    pthread_t thread;
    char *block = block_of(size);
    release(block);
    if (pthread_create(&thread, NULL, free_it, block) == 0) pthread_join(thread, NULL);
}
static void inside(size_t size) { release(block_of(size) + size / 2 / 16 * 16); }
static void misaligned(size_t size) { release(block_of(size) + 1); }
static void stack(size_t size) {
    char local[256];
    memset(local, 1, sizeof local);
    release(local + size % 64 / 16 * 16);
}
static void variable(size_t size) { release(source + 4096 + size % 64); }
static void mapping(size_t size) {
    char *pages = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    release(pages + PAGE + size % 64 / 16 * 16);
}
static void never_given(size_t size) {
    char *block = block_of(size);
    release(block + (size + 15) / 16 * 16 * 3);
}
static void realloc_freed(size_t size) {
    char *block = block_of(size);
    release(block);
    sink = *(char *)realloc(block, size * 2);
}
static void size_of_freed(size_t size) {
    char *block = block_of(size);
    release(block);
    sink = (char)malloc_usable_size(block);
}

/* ---- calls that do not match: C++ names, from the allocator or the runtime ---- */

static void *call(const char *name, size_t size) {
    void *(*function)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, name);
    if (!function) _exit(3);
    return function(size);
}
static void free_by(const char *name, void *block, size_t size) {
    void (*function)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, name);
    if (!function) _exit(3);
    function(block, size);
}
static void new_free(size_t size) { release(call("_Znwm", size)); }
static void malloc_delete(size_t size) { free_by("_ZdlPv", block_of(size), 0); }
static void new_delete_array(size_t size) { free_by("_ZdaPv", call("_Znwm", size), 0); }
static void wrong_size(size_t size) { free_by("_ZdlPvm", call("_Znwm", size), size * 2 + 64); }

/* ---- writes and reads ---- */

static void zero_behind(size_t size) {
    char *block = block_of(size);
    *(volatile char *)(block + size) = 0;
    release(block);
}
static void word_behind(size_t size) {
    char *block = block_of(size);
    for (int i = 0; i < 8; i++) *(volatile char *)(block + size + i) = 0x41;
    release(block);
}
static void before(size_t size) {
    char *block = block_of(size);
    *(volatile char *)(block - 1) = 0x41;
    release(block);
}
static void copy_behind(size_t size) {
    char *block = block_of(size);
    copy(block, source, size + 1);
}
static void page_behind(size_t size) {
    char *block = block_of(size);
    *(volatile char *)(((uintptr_t)block + size + PAGE - 1) / PAGE * PAGE) = 1;
}
static void run_through(size_t size) {
    char *block = block_of(size);
    for (size_t i = 0; i < 4 * MIB; i += 64) *(volatile char *)(block + size + i) = 1;
}
static void write_freed(size_t size) {
    char *block = block_of(size);
    release(block);
    *(volatile char *)(block + size / 2) = 0x41;
}
static void read_freed(size_t size) {
    char *block = block_of(size);
    release(block);
    sink = *(volatile char *)(block + size / 2);
}
static void write_nothing(size_t size) {
    (void)size;
    *(volatile char *)malloc(no_bytes) = 1;
}
static void read_nothing(size_t size) {
    (void)size;
    sink = *(volatile char *)malloc(no_bytes);
}

/* `least` bytes and more, up to `most`. */
static const struct kind {
    const char *name;
    void (*commit)(size_t size);
    size_t least, most;
} kinds[] = {
    {"double free", twice, 8, 4 * MIB},
    {"double free, 50 frees between", twice_few, 8, 4 * MIB},
    {"double free, thousands between", twice_many, 8, 4 * MIB},
    {"double free, by another thread", twice_other_thread, 8, 4 * MIB},
    {"free of the middle", inside, 32, 4 * MIB},
    {"free of the second byte", misaligned, 8, 4 * MIB},
    {"free of the stack", stack, 8, 1000},
    {"free of a variable", variable, 8, 1000},
    {"free of a mapping", mapping, 8, 1000},
    {"free of no block yet", never_given, 8, 20000},
    {"realloc of a freed block", realloc_freed, 8, 4 * MIB},
    {"usable size of a freed block", size_of_freed, 8, 4 * MIB},
    {"new, free", new_free, 8, 4 * MIB},
    {"malloc, delete", malloc_delete, 8, 4 * MIB},
    {"new, delete[]", new_delete_array, 8, 4 * MIB},
    {"sized delete, wrong size", wrong_size, 8, 4 * MIB},
    {"0 behind the block", zero_behind, 8, 4 * MIB},
    {"8 bytes behind the block", word_behind, 8, 4 * MIB},
    {"a byte before the block", before, 8, 4 * MIB},
    {"memcpy of a byte too many", copy_behind, 8, 4 * MIB},
    {"write to the page behind", page_behind, 100000, 4 * MIB},
    {"write through 4 MiB", run_through, 8, 4 * MIB},
    {"write to a freed block", write_freed, 8, 4 * MIB},
    {"read of a freed block", read_freed, 8, 4 * MIB},
    {"write to 0 bytes", write_nothing, 8, 8},
    {"read of 0 bytes", read_nothing, 8, 8},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- trials ---- */

struct trial {
    const struct kind *kind;
    size_t size;
};

static void *commit(void *context) {
    const struct trial *trial = context;
    trial->kind->commit(trial->size);
    *reached = 1;
    free_others(trial->size, AGAIN);
    malloc_trim(0);
    return NULL;
}

/* In a thread of its own, whose end is part of "later". */
static void in_child(struct trial *trial) {
    pthread_t thread;
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    alarm(SECONDS);
    if (!freopen("/dev/null", "w", stderr)) _exit(3);
    if (pthread_create(&thread, NULL, commit, trial) != 0) _exit(3);
    pthread_join(thread, NULL);
    free_others(trial->size, AGAIN);
    _exit(0);
}

static const char *run(const struct kind *kind, size_t size) {
    struct trial trial = {kind, size};
    int status = 0;
    if (size < kind->least || size > kind->most) return "none";
    *reached = 0;
    pid_t child = fork();
    if (child == 0) in_child(&trial);
    if (child < 0 || waitpid(child, &status, 0) != child) exit(1);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return "none";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "missed";
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return "missed"; /* it hangs */
    return *reached ? "later" : "call";
}

int main(int argc, char **argv) {
    dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL); /* where the allocator has no operator new */
    reached = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reached == MAP_FAILED) return 1;
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < SIZES && (argc < 2 || strcmp(argv[1], kinds[k].name) == 0); i++) {
            printf("%s\t%zu\t%s\n", kinds[k].name, sizes[i], run(&kinds[k], sizes[i]));
            fflush(stdout);
        }
    return 0;
}
