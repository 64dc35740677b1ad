/* open_files.c: opens files, and notes those that are open for a while. */
#include "os/open_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "os/file.h"
#include "os/gate.h"
#include "os/os.h"

enum { PLACES = 16 };

typedef struct {
    _Atomic uintptr_t thread; /* 0: free. Any thread takes a free place; all else is its own */
    int file;
    hak_os_file_id_t id; /* the number may be another file's, after a jump out of a report */
} place_t;

static place_t places[PLACES] HAK_APART;

/* Inside the gate. */
static HAK_BEHIND void note(int file) {
    const uintptr_t own = hak_os_thread();
    for (unsigned i = 0; i < PLACES; i++) {
        uintptr_t none = 0;
        if (hak_load_relaxed(&places[i].thread)) continue;
        if (!hak_cas_acquire(&places[i].thread, &none, own)) continue; /* partner: forget */
        places[i].file = file;
        places[i].id = hak_os_file_id(file);
        return;
    }
}

static HAK_BEHIND void forget(int file) {
    const uintptr_t own = hak_os_thread();
    for (unsigned i = 0; i < PLACES; i++)
        if (hak_load_relaxed(&places[i].thread) == own && places[i].file == file)
            hak_store_release(&places[i].thread, 0); /* partner: note */
}

static HAK_BEHIND int open_noted(const char *path, int flags, unsigned mode) {
    hak_gate_enter();
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), error = errno;
    if (file >= 0) note(file);
    hak_gate_leave();
    errno = error;
    return file;
}

static HAK_BEHIND void close_noted(int file) {
    hak_gate_enter();
    forget(file);
    syscall(SYS_close, file);
    hak_gate_leave();
}

HAK_BEHIND void hak_open_files_close_lost(void) {
    HAK_KEEP_ERRNO();
    for (unsigned i = 0; i < PLACES; i++) {
        const uintptr_t thread = hak_load_relaxed(&places[i].thread);
        if (HAK_LIKELY(!thread) || thread == hak_os_thread()) continue;
        if (hak_os_is_file(places[i].file, &places[i].id)) syscall(SYS_close, places[i].file);
        hak_store_relaxed(&places[i].thread, 0);
    }
}

/* ---- Reading ----------------------------------------------------------------------- */

enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY };

/* The kernel has /proc/thread-self since 3.17. */
HAK_BEHIND int hak_os_open_own(const char *name) {
    char own[40];
    snprintf(own, sizeof own, "/proc/thread-self/%s", name);
    int file = open_noted(own, READ_FLAGS, 0);
    if (file >= 0) return file;
    snprintf(own, sizeof own, "/proc/self/%s", name);
    return open_noted(own, READ_FLAGS, 0);
}

static void each_piece(int file, hak_os_take_piece_t take, void *context) {
    char piece[512];
    bool goes_on = file >= 0;
    for (long got = 1; goes_on && got > 0;) {
        do got = syscall(SYS_read, file, piece, sizeof piece);
        while (got < 0 && errno == EINTR);
        if (got > 0) goes_on = take(piece, (size_t)got, context);
    }
}

HAK_BEHIND void hak_os_each_own_piece(const char *name, hak_os_take_piece_t take, void *context) {
    const int file = hak_os_open_own(name);
    each_piece(file, take, context);
    if (file >= 0) close_noted(file);
}

typedef struct {
    hak_os_take_t take;
    void *context;
} chars_t;

static bool take_chars(const char *piece, size_t size, void *context) {
    const chars_t *chars = context;
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < size; i++) goes_on = chars->take(piece[i], chars->context);
    return goes_on;
}

void hak_os_each_char(const char *path, hak_os_take_t take, void *context) {
    chars_t chars = {take, context};
    hak_gate_enter(); /* a short file: see open_files.h */
    const int file = (int)syscall(SYS_openat, AT_FDCWD, path, READ_FLAGS);
    each_piece(file, take_chars, &chars);
    if (file >= 0) syscall(SYS_close, file);
    hak_gate_leave();
}

/* ---- Making ------------------------------------------------------------------------ */

enum { FLAGS = O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | O_NOCTTY };

static int open_file(const char *path, int flags) { return open_noted(path, flags, 0600); }

/* True when every user may write to the directory of a path, or the directory is unknown. */
static HAK_BEHIND bool is_in_public_folder(char *path) {
    struct stat status;
    char *slash = hak_last_in(path, '/'), first = slash ? slash[1] : 0;
    if (slash) slash[1] = 0; /* restored below; the stack may be too small for a copy */
    bool is_public = stat(slash ? path : ".", &status) != 0 || (status.st_mode & S_IWOTH) != 0;
    if (slash) slash[1] = first;
    return is_public;
}

/* Follows a symbolic link unless every user may write to its directory: in /tmp another user may
 * have made it. */
static int open_unless_public_link(char *path, int flags) {
    int file = open_file(path, flags | O_NOFOLLOW);
    if (file >= 0 || errno != ELOOP) return file;
    if (!is_in_public_folder(path)) return open_file(path, flags);
    errno = ELOOP;
    return -1;
}

/* The error number for a file that another user has made, or for one of ours of which another user may have made a
 * second name; else 0. */
static int error_of_others(const struct stat *status) {
    if (S_ISCHR(status->st_mode)) return 0;
    if (status->st_uid != (uid_t)syscall(SYS_geteuid)) return EPERM;
    return S_ISREG(status->st_mode) && status->st_nlink > 1 ? ELOOP : 0;
}

/* Checks an open file, and truncates it if it is a regular file and `truncates` is set. Returns 0,
 * or the error number that says why no report can be written to it. */
static int prepare(int file, char *path, bool truncates) {
    struct stat status;
    if (fstat(file, &status) != 0) return errno;
    const int wrong = error_of_others(&status);
    if (HAK_UNLIKELY(wrong != 0) && is_in_public_folder(path)) return wrong;
    if (S_ISREG(status.st_mode))
        return !truncates || syscall(SYS_ftruncate, file, (off_t)0) == 0 ? 0 : errno;
    return S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode) ? 0 : EINVAL;
}

static HAK_BEHIND int make_file(char *path, int flags, int *error) {
    HAK_KEEP_ERRNO();
    int file = open_unless_public_link(path, flags);
    *error = file < 0 ? errno : prepare(file, path, !(flags & O_APPEND));
    if (file < 0 || !*error) return file;
    close_noted(file);
    return -1;
}

HAK_BEHIND int hak_os_create(char *path, int *error) { return make_file(path, FLAGS, error); }

HAK_BEHIND int hak_os_append(char *path, int *error) {
    return make_file(path, FLAGS | O_APPEND, error);
}

HAK_BEHIND void hak_os_close(int file) {
    HAK_KEEP_ERRNO();
    close_noted(file);
}
