/* module.h: the file that an address of code is in. */
#pragma once

#include "base/base.h"

/* The file that an address is mapped from: the last part of its name, cut to `size` bytes with the
 * 0, and in *offset the position of the address in the file as addr2line(1) counts. False when the
 * address belongs to no file, or the system does not tell. */
bool hak_os_module_of(const void *addr, char *name, size_t size, uintptr_t *offset);

/* Where the beginning of the file that an address is mapped from is mapped and readable; NULL as
 * above. */
const void *hak_os_module_base(const void *addr);
