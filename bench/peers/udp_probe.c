/* Measures the rate at which a UDP socket sends datagrams: one sendto each, several by one sendmmsg, or as segments of one message, which lie
 * each in a place of its own (segments), one behind the other (contiguous), or are copied there first (gathered).
 * Usage: udp_probe to ADDRESS PORT sendto|sendmmsg|segments|contiguous|gathered PAYLOAD_BYTES SECONDS
 *        udp_probe sink ADDRESS PORT GRO(0|1)
 *   The first sends without waiting and prints one line: Mpps and seconds of processor time per million datagrams.
 *   Every datagram is written anew, with a number. The second receives from any sender until it is killed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { BATCH = 64, PAYLOAD_MAX = 9000, MESSAGE_MAX = 65507 };

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static struct sockaddr_in address(const char *host, const char *port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
  if (inet_pton(AF_INET, host, &to.sin_addr) != 1) errx(2, "%s is no IPv4 address", host);
  return to;
}

/* Frames of 2 KiB, if the payloads are not longer, which begin behind headers. */
enum { PLACE = 2048, HEADERS = 42 };
static char memory[BATCH * (PAYLOAD_MAX + PLACE)], joined[1 << 16], template[PAYLOAD_MAX];

static char *payload(int at, int bytes) { return memory + at * ((bytes + HEADERS + PLACE - 1) / PLACE * PLACE) + HEADERS; }

static void written(char *to, int bytes, uint64_t number) {
  memcpy(to, template, bytes);
  memcpy(to, &number, sizeof number);
}

static void write_all(int bytes, uint64_t from) {
  for (int i = 0; i < BATCH; i++) written(payload(i, bytes), bytes, from + i);
}

/* Waits while the socket buffer is full. */
static int sent_or_wait(int fd, ssize_t n) {
  if (n >= 0) return n;
  if (errno == EAGAIN || errno == ENOBUFS) {
    struct pollfd p = {fd, POLLOUT, 0};
    poll(&p, 1, 100);
  } else if (errno != ECONNREFUSED) err(1, "sending");
  return 0;
}

static uint64_t with_sendto(int fd, struct sockaddr_in to, int bytes, double end) {
  uint64_t sent = 0;
  while (now() < end)
    for (int calls = 0; calls < 16; calls++) {
      write_all(bytes, sent);
      for (int i = 0; i < BATCH; i++) {
        ssize_t n = sendto(fd, payload(i, bytes), bytes, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to);
        sent += sent_or_wait(fd, n) > 0;
      }
    }
  return sent;
}

static uint64_t with_sendmmsg(int fd, struct sockaddr_in to, int bytes, double end) {
  struct iovec iov[BATCH];
  struct mmsghdr msgs[BATCH] = {0};
  uint64_t sent = 0;
  for (int i = 0; i < BATCH; i++) {
    iov[i] = (struct iovec){payload(i, bytes), bytes};
    msgs[i].msg_hdr = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &iov[i], .msg_iovlen = 1};
  }
  while (now() < end)
    for (int calls = 0; calls < 16; calls++) {
      write_all(bytes, sent);
      sent += sent_or_wait(fd, sendmmsg(fd, msgs, BATCH, MSG_DONTWAIT));
    }
  return sent;
}

enum layout { SCATTERED, CONTIGUOUS, GATHERED };

static uint64_t with_segments(int fd, struct sockaddr_in to, int bytes, double end, enum layout layout) {
  struct iovec iov[BATCH];
  int count = MESSAGE_MAX / bytes < BATCH ? MESSAGE_MAX / bytes : BATCH;
  char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
  struct msghdr msg = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = iov, .msg_iovlen = layout == SCATTERED ? count : 1,
                       .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
  uint16_t segment = bytes;
  uint64_t sent = 0;
  head->cmsg_level = SOL_UDP, head->cmsg_type = UDP_SEGMENT, head->cmsg_len = CMSG_LEN(sizeof segment);
  memcpy(CMSG_DATA(head), &segment, sizeof segment);
  for (int i = 0; i < count; i++) iov[i] = (struct iovec){payload(i, bytes), bytes};
  if (layout != SCATTERED) iov[0] = (struct iovec){joined, (size_t)count * bytes};
  while (now() < end)
    for (int calls = 0; calls < 16; calls++) {
      for (int i = 0; i < count; i++) {
        written(layout == CONTIGUOUS ? joined + i * bytes : payload(i, bytes), bytes, sent + i);
        if (layout == GATHERED) memcpy(joined + i * bytes, payload(i, bytes), bytes);
      }
      if (sent_or_wait(fd, sendmsg(fd, &msg, MSG_DONTWAIT)) > 0) sent += count;
    }
  return sent;
}

static void sink(struct sockaddr_in at, int gro) {
  static char buffers[16][1 << 16];
  struct iovec iov[16];
  struct mmsghdr msgs[16] = {0};
  int fd = socket(AF_INET, SOCK_DGRAM, 0), room = 8 << 20;
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at)) err(1, "sink");
  if (setsockopt(fd, SOL_UDP, UDP_GRO, &gro, sizeof gro)) err(1, "UDP_GRO");
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room)) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  for (int i = 0; i < 16; i++) {
    iov[i] = (struct iovec){buffers[i], sizeof buffers[i]};
    msgs[i].msg_hdr.msg_iov = &iov[i], msgs[i].msg_hdr.msg_iovlen = 1;
  }
  for (;;)
    if (recvmmsg(fd, msgs, 16, MSG_WAITFORONE, NULL) < 0 && errno != EINTR) err(1, "recvmmsg");
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "sink")) sink(address(argv[2], argv[3]), atoi(argv[4]));
  if (argc != 7 || strcmp(argv[1], "to")) errx(2, "usage: udp_probe to ADDRESS PORT WAY PAYLOAD_BYTES SECONDS");
  struct sockaddr_in to = address(argv[2], argv[3]);
  int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = atoi(argv[5]);
  if (fd < 0) err(1, "socket");
  if (bytes < 8 || bytes > PAYLOAD_MAX) errx(2, "payloads of 8 to %d bytes", PAYLOAD_MAX);
  double begin = now(), before = cpu(), end = begin + atof(argv[6]);
  const char *way = argv[4];
  enum layout layout = !strcmp(way, "contiguous") ? CONTIGUOUS : !strcmp(way, "gathered") ? GATHERED : SCATTERED;
  uint64_t sent = !strcmp(way, "sendto") ? with_sendto(fd, to, bytes, end)
    : !strcmp(way, "sendmmsg") ? with_sendmmsg(fd, to, bytes, end) : with_segments(fd, to, bytes, end, layout);
  printf("%.3f Mpps %.3f cpu seconds per million\n", sent / (now() - begin) / 1e6, (cpu() - before) / sent * 1e6);
}
