/* terminal.h: a picture that is redrawn with plain ANSI sequences; plain lines if the output is not
 * a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum { STYLE_PLAIN, STYLE_TITLE, STYLE_HEAD, STYLE_FAINT } style_t;

/* Takes over the terminal, if the output is one and `wanted`: another screen, no echo, no cursor.
 * terminal_leave restores it; so do signals that stop or end the process. */
void terminal_enter(bool wanted);
void terminal_leave(void);

/* True when it was taken over. If not, pictures follow one another and have any number of lines. */
bool terminal_is_there(void);

/* Columns, lines, and whether the terminal shows more than ASCII. */
int terminal_width(void);
int terminal_height(void);
bool terminal_is_utf8(void);

/* A picture: begin, lines from the top, end. Parts that do not fit are cut off. `keep` lines at the
 * bottom are reserved for terminal_line_below. */
void terminal_begin(int keep);
void terminal_line(style_t style, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_line_below(style_t style, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool terminal_is_full(void);
void terminal_end(void);

/* Milliseconds of a monotonic clock. */
int64_t terminal_clock_ms(void);

typedef enum { EVENT_TIME, EVENT_KEY, EVENT_REDRAW, EVENT_QUIT } event_t;

/* Waits until `ms` have passed, a key is pressed (*key), the size changes, or a signal asks to
 * end. */
event_t terminal_wait(int ms, char *key);
