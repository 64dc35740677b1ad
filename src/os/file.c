/* file.c: the files that HAKMEM writes to: stderr, and those of reports.
 *
 * The number of a descriptor does not identify a file: a daemon closes the descriptors that it
 * inherited, and the next files that it opens get their numbers. So code that keeps a descriptor
 * keeps the identity of its file, too. */
#include "os/file.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

enum {
    STDERR = 2,
    WAIT_S = 1,
    NS_PER_S = 1000000000,
    KERNEL_SIGNALS = 64 / 8, /* bytes of a set */
};

/* Constants and layout of statx(2), which an older libc lacks. */
enum { AT_EMPTY = 0x1000, WITH_BIRTH = 0x800 };
typedef struct {
    uint32_t mask, unused[19];
    int64_t birth_s;
    uint32_t birth_ns, more[41];
} kernel_statx_t;
_Static_assert(offsetof(kernel_statx_t, birth_s) == 80 && sizeof(kernel_statx_t) == 256,
               "the kernel's struct statx");

/* Time of creation. The inode number of a removed file is soon reused, its time of creation is
 * not. */
static uint64_t born_ns(int file) {
    kernel_statx_t status = {0};
    if (syscall(SYS_statx, file, "", AT_EMPTY, WITH_BIRTH, &status) != 0) return 0;
    if (!(status.mask & WITH_BIRTH)) return 0;
    return (uint64_t)status.birth_s * NS_PER_S + status.birth_ns;
}

HAK_BEHIND hak_os_file_id_t hak_os_file_id(int file) {
    HAK_KEEP_ERRNO();
    struct stat status;
    if (fstat(file, &status) != 0) return (hak_os_file_id_t){0, 0, 0};
    return (hak_os_file_id_t){(uint64_t)status.st_dev, (uint64_t)status.st_ino, born_ns(file)};
}

bool hak_os_is_file(int file, const hak_os_file_id_t *id) {
    const hak_os_file_id_t now = hak_os_file_id(file);
    return id->inode && now.device == id->device && now.inode == id->inode &&
           now.born_ns == id->born_ns;
}

/* True for a descriptor without close-on-exec. Programs make stderr with dup2, which clears that
 * flag. */
static bool is_for_children(int file) {
    int flags = fcntl(file, F_GETFD);
    return flags >= 0 && !(flags & FD_CLOEXEC);
}

static bool is_terminal(int file) {
    struct winsize size;
    return syscall(SYS_ioctl, file, TIOCGWINSZ, &size) == 0;
}

HAK_BEHIND bool hak_os_is_listener(int file) {
    HAK_KEEP_ERRNO();
    struct stat status;
    return is_for_children(file) && fstat(file, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || (S_ISCHR(status.st_mode) && is_terminal(file)));
}

/* ---- Writing ----------------------------------------------------------------------- */

/* Raw system calls, here and below: libc's functions are cancellation points, and a thread that is cancelled keeps
 * the lock of its report for ever. */

/* Waits for a nonblocking file; true when it accepts more within WAIT_S. */
static bool wait_for(int file) {
    struct pollfd ready = {.fd = file, .events = POLLOUT};
    struct timespec most = {WAIT_S, 0};
    return syscall(SYS_ppoll, &ready, 1, &most, NULL, 0) > 0;
}

static bool write_all(int file, const char *text, size_t size, int *error) {
    *error = 0;
    while (size > 0) {
        long done = syscall(SYS_write, file, text, size);
        if (done < 0 && (errno == EINTR || (errno == EAGAIN && wait_for(file)))) continue;
        if (done <= 0) {
            *error = done < 0 ? errno : EIO;
            return false;
        }
        text += done;
        size -= (size_t)done;
    }
    return true;
}

/* The signal that a failed write raised in the writing thread, or 0. */
static int signal_of(int error) { return error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0; }

/* The bit of a signal, in the first word of a set as the kernel has it. */
static unsigned long bit_of(int number) { return 1ul << (number - 1); }

static sigset_t set_of(unsigned long bits) {
    sigset_t signals;
    memset(&signals, 0, sizeof signals);
    memcpy(&signals, &bits, sizeof bits);
    return signals;
}

static void consume(int signal_number) {
    const sigset_t signals = set_of(bit_of(signal_number));
    const struct timespec at_once = {0, 0};
    syscall(SYS_rt_sigtimedwait, &signals, NULL, &at_once, KERNEL_SIGNALS);
}

/* A pipe without a reader raises SIGPIPE in the writing thread, and a file at the limit on file sizes raises SIGXFSZ;
 * each would end the program. So both are blocked during the write, and consumed afterwards unless they were pending
 * before. */
HAK_BEHIND bool hak_os_write(int file, const char *text, size_t size, int *error) {
    HAK_KEEP_ERRNO();
    const sigset_t raised = set_of(bit_of(SIGPIPE) | bit_of(SIGXFSZ));
    sigset_t others;
    unsigned long pending = 0;
    syscall(SYS_rt_sigpending, &pending, sizeof pending);
    pthread_sigmask(SIG_BLOCK, &raised, &others);
    bool written = write_all(file, text, size, error);
    const int number = signal_of(*error);
    if (number && !(pending & bit_of(number))) consume(number);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    return written;
}

HAK_BEHIND void hak_os_write_stderr(const char *text, size_t size) {
    HAK_KEEP_ERRNO();
    int error;
    if (is_for_children(STDERR)) hak_os_write(STDERR, text, size, &error);
}

HAK_BEHIND int hak_os_copy_stderr(void) {
    HAK_KEEP_ERRNO();
    return fcntl(STDERR, F_DUPFD_CLOEXEC, HAK_OS_OWN_FILES);
}

/* ---- Names ------------------------------------------------------------------------- */

HAK_BEHIND size_t hak_os_expand(const char *name, char *path, size_t size) {
    char id[12];
    size_t used = 0;
    int digits = snprintf(id, sizeof id, "%u", hak_os_process_id());
    for (; *name; name++) {
        bool is_id = name[0] == '%' && name[1] == 'p';
        const char *part = is_id ? id : name;
        size_t length = is_id ? (size_t)digits : 1;
        if (used + length >= size) break;
        memcpy(path + used, part, length);
        used += length;
        if (is_id) name++;
    }
    path[used] = 0;
    return used;
}

/* Not strerror: it may load a message catalogue, which allocates. */
HAK_BEHIND const char *hak_os_reason(int error) {
    static const struct {
        int error;
        const char text[56];
    } reasons[] = {{EACCES, "permission denied"},
                   {EPERM, "permission denied"},
                   {ENOENT, "the folder does not exist"},
                   {ENOTDIR, "the folder does not exist"},
                   {EISDIR, "it is a directory"},
                   {ENOSPC, "no space is left"},
                   {EDQUOT, "the quota of space is used up"},
                   {EMFILE, "too many files are open"},
                   {ENFILE, "too many files are open"},
                   {EFBIG, "the limit of files' sizes is reached"},
                   {ENAMETOOLONG, "the name is too long"},
                   {EROFS, "the file system is read-only"},
                   {ELOOP, "it is a link in a folder that every user may write to"},
                   {ENXIO, "no process reads from it"},
                   {EINVAL, "it is not a file, a terminal or a pipe"},
                   {EPIPE, "its reader is gone"},
                   {EAGAIN, "its reader has read nothing for a second"}};
    for (unsigned i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].error == error) return reasons[i].text;
    return "the system reports an error";
}
