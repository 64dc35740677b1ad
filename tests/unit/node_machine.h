/* node_machine.h: a made-up machine: its CPUs, the one that a thread is said to run on, and a folder that describes its nodes
 * in place of the system's. The tests that use it wrap the engine's calls (CMakeLists.txt). */
#pragma once

enum { MACHINE_CPUS = 64 };

extern char machine_root[64];            /* the folder of the nodes */
extern unsigned machine_confined;        /* the process may use the CPUs below; 0: all */
extern __thread unsigned machine_cpu;    /* of this thread */
extern unsigned machine_files;           /* that were read */
extern void (*machine_while_read)(void); /* once, while the description is read */

/* Makes the folder, from the texts of `online` (NULL: none) and of the cpulists, which end with NULL. */
void machine_describe(const char *online, const char *const *lists);
void machine_forget(void);
