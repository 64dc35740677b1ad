/* process.h: a model of the process that the whole engine lives in: its threads and what libc keeps
 * for them, time, CPUs, futexes and forks. Memory and files are the real ones. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { PROCESS_OTHER_CPU = 6 };

/* Of the present execution; a scenario's prepare may change them before the engine starts. */
typedef struct {
    uint64_t now_ms, tick_ms; /* each look at the clock moves it on by a tick */
    unsigned cpus;
    uint32_t moved;         /* threads, a bit each, that have gone to PROCESS_OTHER_CPU */
    unsigned helper;        /* number of the thread that pthread_create starts; 0: it is refused */
    bool names_no_mapping;  /* prctl fails, as on an older kernel */
    bool lengthens_nothing; /* mremap moves no block to make it longer */
    bool moves_all;         /* mremap moves each block that it makes longer */
    bool has_moved;         /* with that, as the next: one */
    void *left;             /* where the last one was, until the next mapping is made there */
    bool guards_nothing;    /* madvise makes no guards, as on an older kernel */
    unsigned reports;       /* texts that were written to stderr */
    uint64_t randoms;       /* numbers that the kernel has made */
    bool is_child;          /* of a fork */
    void *page;             /* the last mapping that other processes could share */
} process_t;
extern process_t process;

/* Once, before the first exploration. */
void process_make(void);

/* Sets an option by the environment, in prepare. */
void process_option(const char *name, const char *value);

/* The constructor of the engine, which the program does not run by itself. */
void process_start(void);

/* The running thread goes on on another CPU, where no thread began. */
void process_move_thread(void);

/* The running thread ends: what libc does with the engine's key. */
void process_end_thread(void);

/* The body of the thread that pthread_create starts. */
void process_helper(void);

/* The running thread forks; true in the child, where it goes on alone. */
bool process_fork(void);
