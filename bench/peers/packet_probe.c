/* Measures the top rate of AF_PACKET for 64-byte frames: the least loop for each way that the kernel offers.
 * Usage: packet_probe INTERFACE mmsg|ring2|ring2c|ring3 BYPASS(0|1) BATCH SECONDS
 *   mmsg    sendmmsg, BATCH frames a call          ring2   PACKET_TX_RING, version 2, by reference to the ring's pages
 *   ring3   the same, version 3                    ring2c  version 2 with PACKET_VNET_HDR and hdr_len = the frame,
 *                                                          so that the kernel copies it into one linear buffer
 * Prints one line: Mpps and seconds of processor time per million frames. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { FRAME = 60, SLOT = 2048, SLOTS = 1024, VNET = 10 };

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}
static void option(int fd, int name, int value) {
  if (setsockopt(fd, SOL_PACKET, name, &value, sizeof value)) err(1, "option %d", name);
}

/* An UDP packet of 60 bytes without the check sequence. */
static const unsigned char packet[FRAME] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17,
  0x50, 0x6a, 192, 0, 2, 1, 198, 51, 100, 1, 4, 0, 0, 9, 0, 26};

static uint64_t with_mmsg(int fd, int batch, double end) {
  static unsigned char frames[1024][SLOT];
  struct iovec iov[1024];
  struct mmsghdr msgs[1024] = {0};
  uint64_t sent = 0;
  for (int i = 0; i < batch; i++) {
    iov[i] = (struct iovec){frames[i], FRAME};
    msgs[i].msg_hdr.msg_iov = &iov[i], msgs[i].msg_hdr.msg_iovlen = 1;
  }
  while (now() < end)
    for (int calls = 0; calls < 4096 / batch + 1; calls++) {
      for (int i = 0; i < batch; i++) memcpy(frames[i], packet, FRAME);
      int n = sendmmsg(fd, msgs, batch, MSG_DONTWAIT);
      if (n > 0) sent += n;
      else if (errno != EAGAIN && errno != ENOBUFS) err(1, "sendmmsg");
    }
  return sent;
}

static uint64_t with_ring(int fd, int version, int copied, int batch, double end) {
  option(fd, PACKET_VERSION, version);
  if (copied) option(fd, PACKET_VNET_HDR, 1);
  struct tpacket_req3 req = {.tp_block_size = SLOT * SLOTS, .tp_block_nr = 1, .tp_frame_size = SLOT, .tp_frame_nr = SLOTS};
  socklen_t size = version == TPACKET_V3 ? sizeof req : sizeof(struct tpacket_req);
  if (setsockopt(fd, SOL_PACKET, PACKET_TX_RING, &req, size)) err(1, "PACKET_TX_RING");
  unsigned char *ring = mmap(0, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (ring == MAP_FAILED) err(1, "mmap");
  uint64_t sent = 0, full = 0;
  uint32_t at = 0;
  while (now() < end)
    for (int calls = 0; calls < 4096 / batch + 1; calls++) {
      int i = 0;
      for (; i < batch; i++) {
        unsigned char *slot = ring + (size_t)(at % SLOTS) * SLOT, *data;
        volatile uint32_t *status;
        if (version == TPACKET_V3) {
          struct tpacket3_hdr *h = (void *)slot;
          status = &h->tp_status, data = slot + TPACKET3_HDRLEN - sizeof(struct sockaddr_ll);
          h->tp_len = FRAME, h->tp_next_offset = 0;
        } else {
          struct tpacket2_hdr *h = (void *)slot;
          status = &h->tp_status, data = slot + TPACKET2_HDRLEN - sizeof(struct sockaddr_ll);
          h->tp_len = FRAME + (copied ? VNET : 0);
        }
        if (__atomic_load_n(status, __ATOMIC_ACQUIRE) != TP_STATUS_AVAILABLE) break;
        if (copied) {
          memset(data, 0, VNET);
          *(uint16_t *)(data + 2) = FRAME; /* hdr_len: what the kernel copies */
          data += VNET;
        }
        memcpy(data, packet, FRAME);
        __atomic_store_n(status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
        at++;
      }
      sent += i;
      full += i == 0;
      if (sendto(fd, 0, 0, MSG_DONTWAIT, 0, 0) < 0 && errno != EAGAIN && errno != ENOBUFS) err(1, "sendto");
    }
  if (full) fprintf(stderr, "found the ring full %lu times\n", full);
  return sent;
}

int main(int argc, char **argv) {
  if (argc != 6) errx(2, "see the top of the source");
  int fd = socket(AF_PACKET, SOCK_RAW, 0), batch = atoi(argv[4]);
  struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = if_nametoindex(argv[1])};
  if (fd < 0 || bind(fd, (void *)&to, sizeof to)) err(1, "socket on %s", argv[1]);
  if (atoi(argv[3])) option(fd, PACKET_QDISC_BYPASS, 1);
  int buffer = 4 << 20;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
  double start = now(), used = cpu(), end = start + atof(argv[5]);
  uint64_t sent = !strcmp(argv[2], "mmsg") ? with_mmsg(fd, batch, end)
    : with_ring(fd, strcmp(argv[2], "ring3") ? TPACKET_V2 : TPACKET_V3, !strcmp(argv[2], "ring2c"), batch, end);
  double seconds = now() - start;
  printf("%s bypass=%s batch=%d %.3f Mpps %.3f cpu-s/M\n", argv[2], argv[3], batch, sent / seconds / 1e6, (cpu() - used) / sent * 1e6);
}
