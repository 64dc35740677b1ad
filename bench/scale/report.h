/* report.h: what was counted, as JSON on stdout. */
#ifndef SCALE_REPORT_H
#define SCALE_REPORT_H

void report_print(void);

#endif
