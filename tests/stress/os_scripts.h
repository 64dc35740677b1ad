/* os_scripts.h - what a process does while its system calls fail: about thirty scripts. */
#pragma once

struct os_script {
    const char *name;
    void (*run)(void);
    const char
        *setting; /* NAME=VALUE; the process is a new one, and its first call counts. Or NULL */
};

extern const struct os_script os_scripts[];
extern const unsigned os_script_count;

/* Requests that were refused since the last call: NULL with ENOMEM. Anything else ends the process. */
unsigned long os_scripts_refused(void);
