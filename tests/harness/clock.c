/* Preloaded into one process: its wall clock is off by the seconds that the file CLOCK_OFFSET_FILE holds. Other clocks are untouched. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long off(void) {
  static int file = -1;
  char text[32] = {0};
  const char *path = getenv("CLOCK_OFFSET_FILE");
  if (file < 0 && path) file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || pread(file, text, sizeof text - 1, 0) <= 0) return 0;
  return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = (int)syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += off();
  return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}
