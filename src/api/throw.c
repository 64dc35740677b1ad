/* throw.c: std::bad_alloc and the new handler from C, however the C++ runtime is linked.
 *
 * libhakmem needs no C++ runtime, but must use the runtime that the caller's exceptions belong to.
 * It looks for the runtime's symbols in three places:
 *   1. among the weak symbols below. They belong to the program, or to a shared runtime in its
 *      scope. A program with a static runtime that is linked with libhakmem.so exports those that
 *      it contains, since the library refers to them
 *   2. in the object that called, and in its dependencies: a plug-in may have brought the runtime,
 *      even a static one of its own, and the program's scope need not contain any of that
 *   3. in the loaded objects with the usual names of runtimes.
 * A weak reference pulls no member out of an archive, so a static program may lack the function
 * that throws std::bad_alloc, and even its type, for instance when it only catches `...`. But every
 * program that catches anything contains the functions that throw, and std::exception. In that case
 * this file makes the rest, according to the Itanium ABI. */
#include "api/throw.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <unwind.h>

#if !HAKMEM_PREFIXED_ONLY

/* RUNTIME(name, symbol): libstdc++'s and libc++'s names agree in all of them. */
#define RUNTIME_SYMBOLS                                \
    RUNTIME(GET_HANDLER, _ZSt15get_new_handlerv)       \
    RUNTIME(THROW_BAD_ALLOC, _ZSt17__throw_bad_allocv) \
    RUNTIME(ALLOCATE, __cxa_allocate_exception)        \
    RUNTIME(THROW, __cxa_throw)                        \
    RUNTIME(BEGIN_CATCH, __cxa_begin_catch)            \
    RUNTIME(END_CATCH, __cxa_end_catch)                \
    RUNTIME(TYPE_BAD_ALLOC, _ZTISt9bad_alloc)          \
    RUNTIME(TYPE_EXCEPTION, _ZTISt9exception)          \
    RUNTIME(CLASS_TYPE, _ZTVN10__cxxabiv120__si_class_type_infoE)

#define RUNTIME(name, symbol) extern char symbol[] __attribute__((weak));
RUNTIME_SYMBOLS
#undef RUNTIME

#define RUNTIME(name, symbol) name,
typedef enum { RUNTIME_SYMBOLS SYMBOL_COUNT } symbol_t;
#undef RUNTIME

#define RUNTIME(name, symbol) {symbol, #symbol},
static const struct {
    char *linked; /* its address; NULL: not in the program's scope */
    const char *name;
} symbols[SYMBOL_COUNT] = {RUNTIME_SYMBOLS};
#undef RUNTIME

/* Weak, since a static program may lack the loader's functions. */
#pragma weak dladdr
#pragma weak dlclose
#pragma weak dlopen
#pragma weak dlsym

static void *find_in(const char *object, const char *name) {
    void *handle = dlopen(object, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? dlsym(handle, name) : NULL;
    if (handle) dlclose(handle); /* the object stays loaded, since its code is running */
    return found;
}

static void *find(symbol_t symbol, const void *site) {
    static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
    const char *name = symbols[symbol].name;
    if (symbols[symbol].linked) return symbols[symbol].linked;
    if (!dladdr || !dlclose || !dlopen || !dlsym) return NULL;
    Dl_info caller;
    void *found = NULL;
    if (dladdr(site, &caller) && caller.dli_fname) found = find_in(caller.dli_fname, name);
    for (unsigned i = 0; !found && i < sizeof runtimes / sizeof *runtimes; i++)
        found = find_in(runtimes[i], name);
    return found;
}

/* ---- The exception ----------------------------------------------------------------- */

/* Layouts of the Itanium ABI: that of typeid(std::bad_alloc), and a table of virtual functions. */
typedef struct {
    char *functions; /* virtual functions of __si_class_type_info: types with one base, at 0 */
    const char *name;
    void *base;
} class_type_t;

typedef struct {
    intptr_t offset;
    void *type;
    void (*destroy)(void *);
    void (*destroy_and_free)(void *);
    const char *(*what)(const void *);
} exception_table_t;

static void destroy(void *exception) { (void)exception; }

static const char *what(const void *exception) {
    (void)exception;
    return "std::bad_alloc";
}

/* Each thread that throws writes these, always with the same values. */
static class_type_t own_type = {.name = "St9bad_alloc"};
static exception_table_t own_table = {0, NULL, destroy, destroy, what};

/* The runtime's type, or one of this file that is equal to it by its name. NULL without
 * std::exception. */
static void *type_of_bad_alloc(const void *site) {
    void *known = find(TYPE_BAD_ALLOC, site);
    char *functions = known ? NULL : find(CLASS_TYPE, site);
    void *base = functions ? find(TYPE_EXCEPTION, site) : NULL;
    if (!base) return known;
    own_type.functions = functions + 2 * sizeof(void *);
    own_type.base = base;
    return &own_type;
}

/* Converts a symbol to a function: both kinds of pointers have the same size and form, as dlsym
 * requires. */
typedef union {
    void *symbol;
    void (*call)(void);
    void (*(*get_handler)(void))(void);
    void *(*allocate)(size_t size);
    void (*throw)(void *exception, void *type, void (*destroy)(void *));
    void *(*begin_catch)(void *exception);
} function_t;

static function_t find_function(symbol_t symbol, const void *site) {
    function_t function;
    function.symbol = find(symbol, site);
    return function;
}

void hak_throw_bad_alloc(const void *site) {
    const function_t complete = find_function(THROW_BAD_ALLOC, site);
    if (complete.symbol) complete.call();
    const function_t allocate = find_function(ALLOCATE, site), throw = find_function(THROW, site);
    void *type = allocate.symbol && throw.symbol ? type_of_bad_alloc(site) : NULL;
    if (!type) return;
    own_table.type = type;
    void **exception = allocate.allocate(sizeof *exception);
    *exception = &own_table.destroy;
    throw.throw(exception, type, destroy);
}

/* ---- The handler ------------------------------------------------------------------- */

bool hak_throw_call_handler(const void *site) {
    const function_t get = find_function(GET_HANDLER, site);
    void (*handler)(void) = get.symbol ? get.get_handler() : NULL;
    if (handler) handler();
    return handler != NULL;
}

/* The place that catches an exception from a new handler. */
typedef struct catcher {
    jmp_buf place;
    struct _Unwind_Exception *caught;
} catcher_t;

static __thread catcher_t *catcher; /* of the innermost handler that is running */

/* The personality of guarded(): it catches every exception, but not the forced unwinding of a
 * cancelled thread. In the second phase, when it jumps, all frames below have been unwound, so
 * longjmp skips none. */
HAK_SLOW_PATH __attribute__((used)) _Unwind_Reason_Code
hak_throw_catch(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                struct _Unwind_Exception *exception, struct _Unwind_Context *context);
_Unwind_Reason_Code hak_throw_catch(int version, _Unwind_Action actions,
                                    _Unwind_Exception_Class class,
                                    struct _Unwind_Exception *exception,
                                    struct _Unwind_Context *context) {
    (void)version, (void)class, (void)context;
    if (actions & _UA_SEARCH_PHASE) return _URC_HANDLER_FOUND;
    if (!(actions & _UA_HANDLER_FRAME)) return _URC_CONTINUE_UNWIND;
    catcher->caught = exception;
    longjmp(catcher->place, 1);
}

/* 0x1b: the personality is encoded as a pc-relative offset of four bytes. */
HAK_SLOW_PATH static bool guarded(const void *site) {
    __asm__ volatile(".cfi_personality 0x1b, hak_throw_catch");
    bool called = hak_throw_call_handler(site);
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame must exist */
    return called;
}

HAK_BEHIND bool hak_throw_try_handler(const void *site) {
    const function_t begin = find_function(BEGIN_CATCH, site), end = find_function(END_CATCH, site);
    catcher_t here, *outer = catcher;
    if (!begin.symbol || !end.symbol) return false;
    catcher = &here;
    bool called = false;
    if (setjmp(here.place) == 0) {
        called = guarded(site);
        catcher = outer;
        return called;
    }
    catcher = outer;
    begin.begin_catch(here.caught);
    end.call();
    return false;
}

#endif
