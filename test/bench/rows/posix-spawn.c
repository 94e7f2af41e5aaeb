// Starts a program with posix_spawn and waits for its end, COUNT times; prints the median in nanoseconds.
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static int ascending(const void *left, const void *right) {
  long a = *(const long *)left, b = *(const long *)right;
  return (a > b) - (a < b);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int count = atoi(argv[2]);
  long *times = calloc(count > 0 ? count : 1, sizeof *times);
  char *arguments[] = {argv[1], NULL};
  for (int i = 0; i < count; i++) {
    struct timespec start, end;
    pid_t pid;
    int status;
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (posix_spawn(&pid, argv[1], NULL, NULL, arguments, environ) != 0) return 3;
    if (waitpid(pid, &status, 0) != pid || status != 0) return 4;
    clock_gettime(CLOCK_MONOTONIC, &end);
    times[i] = (end.tv_sec - start.tv_sec) * 1000000000L + (end.tv_nsec - start.tv_nsec);
  }
  qsort(times, count, sizeof *times, ascending);
  printf("%ld\n", times[count / 2]);
  return 0;
}
