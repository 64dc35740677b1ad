/* terminal.c: ANSI sequences, and the signals that concern a terminal. A picture is one write that
 * overwrites the last one line by line, so that it does not flicker. */
#include "terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

#define ENTER "\033[?1049h\033[?25l"
#define LEAVE "\033[?25h\033[?1049l"

enum {
    WIDTH_PLAIN = 80,
    WIDTH_LEAST = 20,
    HEIGHT_LEAST = 4,
    LINE_SIZE = 2048,
    PICTURE_SIZE = 1 << 17
};

static bool is_there, is_utf8, has_colours;
static struct termios before;
static volatile sig_atomic_t to_quit, to_redraw, to_stop;

static char picture[PICTURE_SIZE];
static size_t used;
static int lines, lines_most;

/* ---- Taking it, and giving it back ----------------------------------------------------------- */

static void put(const char *text, size_t size) {
    while (size > 0) {
        ssize_t done = write(STDOUT_FILENO, text, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            if (!is_there) fail(1, "cannot write the output: %s", strerror(errno));
            to_quit = 1; /* the terminal has been closed */
            return;
        }
        text += done;
        size -= (size_t)done;
    }
}

static void take(void) {
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    put(ENTER, sizeof ENTER - 1);
}

static void give_back(void) {
    put(LEAVE, sizeof LEAVE - 1);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void on_signal(int number) {
    if (number == SIGWINCH || number == SIGCONT)
        to_redraw = 1;
    else if (number == SIGTSTP)
        to_stop = 1;
    else
        to_quit = 1;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}; /* without SA_RESTART: a wait ends */
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void terminal_enter(bool wanted) {
    const char *kind = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    setlocale(LC_CTYPE, "");
    is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    is_there = wanted && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && kind &&
               strcmp(kind, "dumb") != 0 && tcgetattr(STDIN_FILENO, &before) == 0;
    has_colours = is_there && (!no_colour || !*no_colour);
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) handle(numbers[i], on_signal);
    if (!is_there) return;
    handle(SIGPIPE, on_signal); /* otherwise it ends the command: whoever read is gone */
    handle(SIGWINCH, on_signal);
    handle(SIGTSTP, on_signal);
    handle(SIGCONT, on_signal);
    take();
}

void terminal_leave(void) {
    if (is_there) give_back();
    is_there = false;
}

/* Stops this process, as the shell expects it; returns when it is continued. */
static void stop(void) {
    to_stop = 0;
    give_back();
    raise(SIGSTOP);
    take();
    to_redraw = 1;
}

bool terminal_is_there(void) { return is_there; }
bool terminal_is_utf8(void) { return is_utf8; }

static struct winsize size_now(void) {
    struct winsize size = {0};
    if (is_there) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    return size;
}

int terminal_width(void) {
    int width = size_now().ws_col;
    return width >= WIDTH_LEAST ? width : WIDTH_PLAIN;
}

int terminal_height(void) {
    int height = size_now().ws_row;
    if (!is_there) return INT16_MAX;
    return height >= HEIGHT_LEAST ? height : 24;
}

/* ---- A picture ------------------------------------------------------------------------------- */

static void add(const char *text, size_t size) {
    if (size > sizeof picture - used) return;
    memcpy(picture + used, text, size);
    used += size;
}

static void add_text(const char *text) { add(text, strlen(text)); }

/* Bytes of the first `width` characters; in UTF-8 continuation bytes are 10xxxxxx. */
static size_t cut(const char *text, int width) {
    size_t at = 0;
    for (int column = 0; text[at]; at++) {
        if (((unsigned char)text[at] & 0xc0) == 0x80) continue;
        if (column++ == width) break;
    }
    return at;
}

static void add_line(style_t style, const char *format, va_list arguments) {
    static const char *const begins[] = {"", "\033[1m", "\033[7m", "\033[2m"};
    char line[LINE_SIZE];
    int width = terminal_width();
    vsnprintf(line, sizeof line, format, arguments);
    if (lines++ > 0) add_text(is_there ? "\r\n" : "\n");
    if (has_colours) add_text(begins[style]);
    add(line, is_there ? cut(line, width) : strlen(line));
    if (has_colours && style != STYLE_PLAIN) add_text("\033[0m");
    if (is_there) add_text("\033[K");
}

void terminal_begin(int keep) {
    used = 0;
    lines = 0;
    lines_most = terminal_height() - keep;
    if (is_there) add_text("\033[H");
}

bool terminal_is_full(void) { return lines >= lines_most; }

void terminal_line(style_t style, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!terminal_is_full()) add_line(style, format, arguments);
    va_end(arguments);
}

void terminal_line_below(style_t style, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (; is_there && lines < lines_most; lines++) add_text(lines ? "\r\n\033[K" : "\033[K");
    add_line(style, format, arguments);
    va_end(arguments);
}

void terminal_end(void) {
    add_text(is_there ? "\033[J" : "\n");
    put(picture, used);
}

/* ---- Events ---------------------------------------------------------------------------------- */

int64_t terminal_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

event_t terminal_wait(int ms, char *key) {
    int64_t end = terminal_clock_ms() + ms;
    for (;;) {
        int64_t left = end - terminal_clock_ms();
        struct pollfd input = {.fd = is_there ? STDIN_FILENO : -1, .events = POLLIN};
        if (to_stop) stop();
        if (to_quit) return EVENT_QUIT;
        if (to_redraw) {
            to_redraw = 0;
            return EVENT_REDRAW;
        }
        if (left <= 0) return EVENT_TIME;
        if (poll(&input, 1, (int)left) <= 0) continue;
        if (read(STDIN_FILENO, key, 1) != 1) return EVENT_QUIT; /* the terminal is gone */
        return EVENT_KEY;
    }
}
