/* calls.h: what instrumented code calls in place of libc's functions.
 *
 * cc (the compiler that instruments) renames libc's names in the object files, NAME to scale_NAME;
 * the file renames lists them. So only the allocator under study and the workloads call these. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>

void *scale_memcpy(void *to, const void *from, size_t size);
void *scale_memmove(void *to, const void *from, size_t size);
void *scale_memset(void *to, int value, size_t size);

void *scale_mmap(void *addr, size_t size, int prot, int flags, int file, off_t offset);
void *scale_mmap64(void *addr, size_t size, int prot, int flags, int file, off_t offset);
int scale_munmap(void *addr, size_t size);
int scale_madvise(void *addr, size_t size, int advice);
int scale_mprotect(void *addr, size_t size, int prot);
void *scale_mremap(void *addr, size_t old_size, size_t size, int flags, ...);

int scale_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                         void *arg);
int scale_pthread_join(pthread_t thread, void **result);
int scale_pthread_detach(pthread_t thread);
int scale_pthread_mutex_lock(pthread_mutex_t *mutex);
int scale_pthread_mutex_trylock(pthread_mutex_t *mutex);
int scale_pthread_mutex_unlock(pthread_mutex_t *mutex);
int scale_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int scale_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *end);
int scale_pthread_cond_signal(pthread_cond_t *cond);
int scale_pthread_cond_broadcast(pthread_cond_t *cond);
int scale_pthread_once(pthread_once_t *once, void (*run)(void));
int scale___cxa_guard_acquire(uint64_t *guard);
void scale___cxa_guard_release(uint64_t *guard);
void scale___cxa_guard_abort(uint64_t *guard);

long scale_syscall(long number, ...);
int scale_sched_yield(void);
int scale_nanosleep(const struct timespec *time, struct timespec *left);
int scale_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                          struct timespec *left);
int scale_usleep(useconds_t us);
int scale_clock_gettime(clockid_t clock, struct timespec *now);
int scale_gettimeofday(struct timeval *now, void *zone);
time_t scale_time(time_t *now);
clock_t scale_clock(void);

int scale_sched_getcpu(void);
int scale_getcpu(unsigned *cpu, unsigned *node);
int scale_sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set);
int scale_pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set);
long scale_sysconf(int name);
int scale_get_nprocs(void);
int scale_get_nprocs_conf(void);
ssize_t scale_getrandom(void *buffer, size_t size, unsigned flags);
int scale_getentropy(void *buffer, size_t size);
unsigned long scale_getauxval(unsigned long type);
int scale_open(const char *path, int flags, ...);
int scale_open64(const char *path, int flags, ...);
int scale_openat(int folder, const char *path, int flags, ...);
int scale_openat64(int folder, const char *path, int flags, ...);
int scale_access_file(const char *path, int mode);

/* The CPU of the next thread that scale_pthread_create makes; -1: its creator's. */
extern _Thread_local int scale_next_cpu;
