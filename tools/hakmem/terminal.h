/* terminal.h: a picture that is drawn over and over, with plain ANSI sequences; plain lines where the
 * output is no terminal. */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { STYLE_PLAIN, STYLE_TITLE, STYLE_HEAD, STYLE_FAINT } style_t;

/* Takes over the terminal, if the output is one and `wanted`: another screen, no echo, no cursor. It is given
 * back by terminal_leave, and before the process stops or ends by a signal. */
void terminal_enter(bool wanted);
void terminal_leave(void);

/* Whether there is one; else pictures follow each other, and have as many lines as they like. */
bool terminal_is_there(void);

/* Columns, lines, and whether it shows more than ASCII. */
int terminal_width(void);
int terminal_height(void);
bool terminal_is_utf8(void);

/* A picture: begin, lines from the top, end. What is too wide or too low is cut off; `keep` lines are kept
 * free at the bottom for those that come by terminal_line_below. */
void terminal_begin(int keep);
void terminal_line(style_t style, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_line_below(style_t style, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool terminal_is_full(void);
void terminal_end(void);

/* Milliseconds of a clock that only goes forward. */
int64_t terminal_clock_ms(void);

typedef enum { EVENT_TIME, EVENT_KEY, EVENT_REDRAW, EVENT_QUIT } event_t;

/* Waits for `ms`, a key (*key), a new size, or a signal to end. */
event_t terminal_wait(int ms, char *key);

#endif
