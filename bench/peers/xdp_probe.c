// The least loop that sends by AF_XDP, copy mode: what the kernel allows.
// xdp_probe INTERFACE BATCH BUDGET SECONDS: BATCH frames (60 bytes) a kick; BUDGET frames that the kernel takes in one
// call, 0 to leave that at its own bound (32).
#include <errno.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#ifndef AF_XDP
#define AF_XDP 44
#endif
#define MAX_TX_SKB_BUDGET 9
// Few frames, so that they are in the processor's caches as a sender's are; at strides that no cache set minds.
enum { RING = 2048, FRAME = 2048, FRAMES = 2048, HOT = 128, COLOURS = 8, LINE = 64 };

static const uint8_t packet[60] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17,
                                   0x50, 0x6a, 192, 0, 2, 1, 198, 51, 100, 1, 4, 0, 0, 9, 0, 26, 0, 0};

static void die(const char *what) { perror(what); exit(1); }
static void set(int fd, int name, const void *value, socklen_t len) {
  if (setsockopt(fd, SOL_XDP, name, value, len)) die("setsockopt");
}
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}
static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "xdp_probe INTERFACE BATCH BUDGET SECONDS\n"), 2;
  const unsigned batch = atoi(argv[2]);
  const int budget = atoi(argv[3]);
  const double seconds = atof(argv[4]);
  int fd = socket(AF_XDP, SOCK_RAW, 0);
  if (fd < 0) die("socket");
  uint8_t *memory = mmap(0, (size_t)FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  struct xdp_umem_reg umem = {.addr = (uintptr_t)memory, .len = (uint64_t)FRAMES * FRAME, .chunk_size = FRAME};
  set(fd, XDP_UMEM_REG, &umem, sizeof umem);
  int size = RING, fill = 64, buffer = 8 << 20;
  set(fd, XDP_UMEM_FILL_RING, &fill, sizeof fill);
  set(fd, XDP_UMEM_COMPLETION_RING, &size, sizeof size);
  set(fd, XDP_TX_RING, &size, sizeof size);
  if (budget) set(fd, MAX_TX_SKB_BUDGET, &budget, sizeof budget);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
  struct xdp_mmap_offsets at;
  socklen_t len = sizeof at;
  if (getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len)) die("offsets");
  uint8_t *tx = mmap(0, at.tx.desc + RING * sizeof(struct xdp_desc), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, XDP_PGOFF_TX_RING);
  uint8_t *cq = mmap(0, at.cr.desc + RING * 8, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, XDP_UMEM_PGOFF_COMPLETION_RING);
  if (tx == MAP_FAILED || cq == MAP_FAILED) die("mmap");
  _Atomic uint32_t *tx_producer = (void *)(tx + at.tx.producer), *cq_producer = (void *)(cq + at.cr.producer),
                   *cq_consumer = (void *)(cq + at.cr.consumer), *tx_consumer = (void *)(tx + at.tx.consumer);
  struct xdp_desc *descriptors = (void *)(tx + at.tx.desc);
  uint64_t *completed = (void *)(cq + at.cr.desc);
  struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(argv[1]), .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP};
  if (bind(fd, (void *)&address, sizeof address)) die("bind");

  uint64_t sent = 0, kicks = 0;
  uint32_t head = 0, done = 0, next = 0;
  const double start = now(), start_cpu = cpu();
  double end = start;
  while (end - start < seconds) {
    for (int round = 0; round < 64; round++) {
      if (head - done + batch <= RING) {
        for (unsigned i = 0; i < batch; i++, head++) {
          uint64_t at = next++ % (batch > HOT / 2 ? FRAMES : HOT), where = at * FRAME + at % COLOURS * LINE;
          memcpy(memory + where, packet, sizeof packet);
          descriptors[head % RING] = (struct xdp_desc){where, sizeof packet, 0};
        }
        atomic_store_explicit(tx_producer, head, memory_order_release);
      }
      while (1) {
        kicks++;
        if (sendto(fd, 0, 0, MSG_DONTWAIT, 0, 0) < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS) die("sendto");
        if (atomic_load_explicit(tx_consumer, memory_order_acquire) == head) break;
      }
      uint32_t produced = atomic_load_explicit(cq_producer, memory_order_acquire);
      for (; done != produced; done++, sent++) next += completed[done % RING] == ~0ull;
      atomic_store_explicit(cq_consumer, done, memory_order_release);
    }
    end = now();
  }
  printf("%.4f Mpps %.4f cpu seconds per million, %.1f per kick\n", sent / (end - start) / 1e6, (cpu() - start_cpu) / sent * 1e6, (double)sent / kicks);
}
