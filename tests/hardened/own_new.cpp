/* own_new.cpp - a library with operators new and delete of its own, which it calls itself: linked with -Bsymbolic-functions,
 * as one that has the C++ runtime in itself. Its blocks come from malloc. */
#include <cstdlib>
#include <new>

void *operator new(std::size_t size) { return std::malloc(size); }
void operator delete(void *block) noexcept { std::free(block); }
void operator delete(void *block, std::size_t) noexcept { std::free(block); }

extern "C" long *own_make();
extern "C" void own_drop(long *number);

long *own_make() { return new long(7); }
void own_drop(long *number) { delete number; }
