/* override.c: finds the reason, if there is one, why a preloaded library cannot serve a program.
 *
 * First it checks the files. This also ensures that the program's loader can be asked without
 * starting the program. Then it asks the loader. */
#include "override.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "binary.h"
#include "command.h"

enum { SCRIPTS_MOST = 4 }; /* depth of scripts that scripts interpret; the kernel's limit */

static char problem[3 * PATH_MAX];

__attribute__((format(printf, 1, 2))) static bool explain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    return false;
}

/* 0 for a file that may be executed; else the error number that execve would give. */
static int error_of(const char *path) {
    struct stat info;
    if (stat(path, &info) != 0) return errno;
    return S_ISREG(info.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

/* Goes on after an error of a folder as execvp does, and skips a folder that is itself too long for a path; of these
 * errors, EACCES is told at the end. */
bool program_find(const char *name, char *path, size_t size) {
    const bool is_path = strchr(name, '/') != NULL;
    const char *folders = is_path || !*name ? "" : getenv("PATH");
    int error = ENOENT;
    if (!folders) folders = "/usr/local/bin:/usr/bin:/bin";
    for (; *name; folders++) {
        size_t length = strcspn(folders, ":");
        const char *between = length ? "/" : is_path ? "" : "./";
        int needed = snprintf(path, size, "%.*s%s%s", (int)length, folders, between, name);
        int found = length >= size ? ENOENT : needed < (int)size ? error_of(path) : ENAMETOOLONG;
        if (!found) return true;
        if (is_path || found == EACCES || (found != ENOENT && found != ENOTDIR)) error = found;
        folders += length;
        if (!*folders || (error != ENOENT && error != EACCES)) break;
    }
    errno = error;
    return false;
}

/* The reason why the kernel would start the file with more privileges than its caller has; then the
 * loader ignores LD_PRELOAD. */
static const char *raised_rights(const char *path) {
    struct stat info;
    struct statvfs system;
    if (stat(path, &info) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return NULL;
    if (statvfs(path, &system) == 0 && (system.f_flag & ST_NOSUID)) return NULL;
    if ((info.st_mode & S_ISUID) && info.st_uid != getuid()) return "is set-user-ID";
    if ((info.st_mode & S_ISGID) && (info.st_mode & S_IXGRP) && info.st_gid != getgid())
        return "is set-group-ID";
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return "has file capabilities";
    return NULL;
}

static bool is_same_file(const char *one, const char *other) {
    struct stat first, second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* The path at which the loader found an object that LD_PRELOAD names without a directory, from a
 * line "\tNAME => PATH (0x". */
static void find_listed(const char *list, const char *name, char *path, size_t size) {
    char wanted[PATH_MAX + 8];
    snprintf(wanted, sizeof wanted, "\t%s => ", name);
    const char *found = strstr(list, wanted);
    if (found) found += strlen(wanted);
    snprintf(path, size, "%.*s", found ? (int)strcspn(found, " \n") : 0, found ? found : "");
}

/* Checks that LD_PRELOAD contains no other allocator. */
static bool check_preloaded(const char *list, const char *library) {
    char names[8192];
    snprintf(names, sizeof names, "%s", getenv("LD_PRELOAD"));
    for (char *rest = names, *name; (name = strtok_r(rest, ": ", &rest)) != NULL;) {
        char path[PATH_MAX];
        binary_t binary;
        snprintf(path, sizeof path, "%s", name);
        if (!strchr(name, '/')) find_listed(list, name, path, sizeof path);
        binary_read(path, &binary);
        if (binary.has_malloc && !is_same_file(path, library))
            return explain("LD_PRELOAD already holds another allocator, %s: take it out first",
                           path);
    }
    return true;
}

/* Checks that the loader lists the library, as "PATH (0x...", and does not refuse the program. It
 * gets the path of the file itself: given a link, it would look for libraries next to the link. */
static bool ask_loader(const char *path, const char *subject, const char *library,
                       const char *loader) {
    static char list[65536];
    char wanted[PATH_MAX + 3], file[PATH_MAX];
    bool starts = loader_list(loader, realpath(path, file) ? file : path, list, sizeof list);
    snprintf(wanted, sizeof wanted, "%s (", library);
    const char *words = list; /* first line of the loader's output that is not an object */
    while (*words == '\t') words += strcspn(words, "\n") + (strchr(words, '\n') != NULL);
    if (!*words) words = "no reason is given";
    int length = (int)strcspn(words, "\n");
    if (!starts) return explain("its loader does not start %s: %.*s", subject, length, words);
    if (!strstr(list, wanted))
        return explain("the loader of %s does not take %s: %.*s", subject, library, length, words);
    return check_preloaded(list, library);
}

static bool check_elf(const char *path, const char *subject, const char *library,
                      const binary_t *binary) {
    binary_t ours;
    binary_read(library, &ours);
    if (!ours.has_malloc)
        return explain("%s has the hakmem_* names only, not malloc; it was built with "
                       "HAKMEM_PREFIXED_ONLY",
                       library);
    if (binary->elf_class != ours.elf_class)
        return explain("%s is a %d-bit program, and %s is a %d-bit library", subject,
                       binary->elf_class * 32, library, ours.elf_class * 32);
    if (binary->machine != ours.machine || binary->elf_data != ours.elf_data) {
        const char *theirs = binary_machine(binary->machine);
        return explain("%s is a program for %s, and %s is a library for %s", subject,
                       theirs ? theirs : "another machine", library, binary_machine(ours.machine));
    }
    if (!binary->is_whole) return explain("%s is damaged: its headers cannot be read", subject);
    if (!*binary->interpreter)
        return explain("%s is statically linked: no loader reads LD_PRELOAD for it; link it with "
                       "libhakmem.a",
                       subject);
    const char *rights = raised_rights(path);
    if (rights)
        return explain("%s %s: the loader ignores LD_PRELOAD for it; start it as its owner, or "
                       "link it with libhakmem",
                       subject, rights);
    bool on_musl = strstr(binary->interpreter, "/ld-musl") != NULL;
    if (on_musl == ours.needs_glibc)
        return explain("%s runs on %s, and %s was built for %s: build HAKMEM with a compiler for "
                       "that libc",
                       subject, on_musl ? "musl" : "glibc", library, on_musl ? "glibc" : "musl");
    if (binary->has_malloc && !binary->wraps_libc) /* __libc_malloc is the library's then */
        return explain("%s has an allocator of its own linked in, which comes before any preload",
                       subject);
    return ask_loader(path, subject, library, binary->interpreter);
}

/* "#!/usr/bin/env [-S] [NAME=VALUE] PROGRAM": env only starts PROGRAM, so PROGRAM is checked. */
static bool find_env_program(const binary_t *script, char *path, size_t size) {
    char words[PATH_MAX];
    const char *base = strrchr(script->interpreter, '/');
    if (!base || strcmp(base, "/env") != 0) return false;
    snprintf(words, sizeof words, "%s", script->argument);
    for (char *rest = words, *word; (word = strtok_r(rest, " \t", &rest)) != NULL;)
        if (*word != '-' && !strchr(word, '=')) return program_find(word, path, size);
    return false;
}

/* The kernel would say of the script itself that it does not exist. */
static void require_interpreter(const char *script, const char *path) {
    if (access(path, X_OK) == 0) return;
    bool exists = errno != ENOENT;
    fail(exists ? STATUS_NOT_EXEC : STATUS_NOT_FOUND, "run: %s: its interpreter %s %s", script,
         path, exists ? "cannot be executed" : "does not exist");
}

static bool check(const char *path, const char *script, const char *library, int depth) {
    char subject[2 * PATH_MAX + 20], next[PATH_MAX];
    binary_t binary;
    snprintf(subject, sizeof subject, script ? "%s (which runs %s)" : "%s", path, script);
    binary_read(path, &binary);
    if (!script) script = path;
    switch (binary.kind) {
    case BINARY_UNREADABLE:
        fprintf(stderr,
                "hakmem: run: %s cannot be read, so nobody knows whether HAKMEM serves it\n",
                subject);
        return true;
    case BINARY_ELF:
        return check_elf(path, subject, library, &binary);
    case BINARY_OTHER:
        return check("/bin/sh", script, library, depth + 1);
    case BINARY_SCRIPT:
        break;
    }
    if (depth > SCRIPTS_MOST) return explain("%s is a script of too many scripts", subject);
    if (!*binary.interpreter) return check("/bin/sh", script, library, depth + 1);
    require_interpreter(path, binary.interpreter);
    if (find_env_program(&binary, next, sizeof next))
        return check(next, script, library, depth + 1);
    return check(binary.interpreter, script, library, depth + 1);
}

const char *override_problem(const char *path, const char *library) {
    return check(path, NULL, library, 0) ? NULL : problem;
}
