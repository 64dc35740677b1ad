/* settings.c - the texts of options: names, values, HAKMEM_CONF.
 *
 * A line "name:value,name:value" goes through the reader of HAKMEM_CONF; then each name and value through
 * the parser. What an option accepts, it prints in a form that it accepts as the same value. */
#include "fuzz.h"

#include <stdlib.h>

#include "os/file.h"

/* Only read_conf() is wanted of environment.c; its lines on stderr are not. */
#define hak_options_load load_of_fuzz
#define hak_options_loaded loaded_of_fuzz
#define hak_os_write_stderr(line, size) ((void)(line), (void)(size))
#include "options/environment.c"
#undef hak_os_write_stderr

#include "check.h"
#include "command.h"

/* The other readers of the command end by it; none is called. */
void fail(int status, const char *format, ...) {
    (void)format;
    exit(status);
}

enum { LINE_MOST = 2000 };

static void parse(int option, hak_text_t value) {
    char text[600], again_text[600];
    int64_t number, again;
    if (!hak_option_parse((hak_option_t)option, value, &number)) return;
    hak_option_row_t row = hak_option_row((hak_option_t)option);
    if (row.kind == HAK_OPTION_IS_TEXT || row.kind == HAK_OPTION_IS_OBSOLETE) return;
    int size = hak_option_format((hak_option_t)option, number, text, sizeof text);
    CHECK(size > 0 && size < (int)sizeof text, "%s: a form of %d bytes", row.name, size);
    CHECK(hak_option_parse((hak_option_t)option, (hak_text_t){text, (size_t)size}, &again),
          "%s prints %s and does not read it", row.name, text);
    hak_option_format((hak_option_t)option, again, again_text, sizeof again_text);
    CHECK(again == number && strcmp(text, again_text) == 0, "%s: %s is read as %s", row.name, text,
          again_text);
    CHECK(!hak_option_is_number(row.kind) || (number >= row.least && number <= row.most),
          "%s: %lld is out of its range", row.name, (long long)number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char line[LINE_MOST + 1];
    if (size > LINE_MOST) return 0;
    memcpy(line, data, size);
    line[size] = 0;
    read_conf(line);
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        char text[1024];
        CHECK(hak_option_format_now((hak_option_t)i, text, sizeof text) >= 0, "option %d", i);
    }
    char *colon = memchr(line, ':', size);
    if (!colon) return 0;
    hak_text_t name = {line, (size_t)(colon - line)};
    hak_text_t value = {colon + 1, size - name.size - 1};
    int option = hak_option_find(name), closest = hak_option_closest(name);
    CHECK(option < HAK_OPTION_COUNT && closest < HAK_OPTION_COUNT, "an option that is none");
    for (int i = 0; i < HAK_OPTION_COUNT; i++)
        if (option < 0 || i == option) parse(i, value);
    return 0;
}
