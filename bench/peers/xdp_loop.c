/* The least that the kernel allows between the first queues of two interfaces by AF_XDP, copy mode: one thread and one memory;
 * what arrives at one leaves by the other from where it lies, both ways, a kick a batch. Polls without end.
 * Usage: xdp_loop INTERFACE INTERFACE */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SOL_XDP
#define SOL_XDP 283
#endif
#ifndef AF_XDP
#define AF_XDP 44
#endif
#define MAX_TX_SKB_BUDGET 9
#define DRIVER_MODE 4
enum { RING = 2048, FRAME = 2048, FRAMES = 8192, BATCH = 64 };

/* A ring and the program's position in it. */
struct ring { _Atomic uint32_t *producer, *consumer; void *entries; uint32_t at; };
struct end { int fd; struct ring fill, receive, transmit, completion; };

static void die(const char *what) { perror(what); exit(1); }
static void set(int fd, int name, const void *value, socklen_t len) {
  if (setsockopt(fd, SOL_XDP, name, value, len)) die("setsockopt");
}
static int bpf(int command, union bpf_attr *attributes) {
  int answer = syscall(SYS_bpf, command, attributes, sizeof *attributes);
  if (answer < 0) die("bpf");
  return answer;
}

/* return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS), attached to `interface`, with `fd` for its first queue. */
static void direct(unsigned interface, int fd) {
  union bpf_attr make = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
  int map = bpf(BPF_MAP_CREATE, &make);
  struct bpf_insn program[] = {
    {BPF_LDX | BPF_W | BPF_MEM, 2, 1, 16, 0}, {BPF_LD | BPF_DW | BPF_IMM, 1, BPF_PSEUDO_MAP_FD, 0, map}, {0},
    {BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS}, {BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map}, {BPF_JMP | BPF_EXIT}};
  union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP, .insn_cnt = 6, .insns = (uintptr_t)program, .license = (uintptr_t) "GPL"};
  int loaded = bpf(BPF_PROG_LOAD, &load), zero = 0;
  union bpf_attr attach = {.link_create = {.prog_fd = loaded, .target_ifindex = interface, .attach_type = BPF_XDP, .flags = DRIVER_MODE}};
  bpf(BPF_LINK_CREATE, &attach);
  union bpf_attr put = {.map_fd = map, .key = (uintptr_t)&zero, .value = (uintptr_t)&fd};
  bpf(BPF_MAP_UPDATE_ELEM, &put);
}

static struct ring mapped(int fd, const struct xdp_ring_offset *at, size_t entry_bytes, off_t which) {
  uint8_t *start = mmap(0, at->desc + RING * entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, which);
  if (start == MAP_FAILED) die("mmap");
  return (struct ring){(void *)(start + at->producer), (void *)(start + at->consumer), start + at->desc, 0};
}

/* `memory` is registered with the first end; the second has it from there. */
static struct end open_end(const char *name, uint8_t *memory, const struct end *first) {
  struct end end = {.fd = socket(AF_XDP, SOCK_RAW, 0)};
  int size = RING, budget = RING, buffer = 8 << 20;
  if (end.fd < 0) die("socket");
  struct xdp_umem_reg umem = {.addr = (uintptr_t)memory, .len = (uint64_t)FRAMES * FRAME, .chunk_size = FRAME};
  if (!first) set(end.fd, XDP_UMEM_REG, &umem, sizeof umem);
  set(end.fd, XDP_UMEM_FILL_RING, &size, sizeof size);
  set(end.fd, XDP_UMEM_COMPLETION_RING, &size, sizeof size);
  set(end.fd, XDP_TX_RING, &size, sizeof size);
  set(end.fd, XDP_RX_RING, &size, sizeof size);
  setsockopt(end.fd, SOL_XDP, MAX_TX_SKB_BUDGET, &budget, sizeof budget);
  setsockopt(end.fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
  struct xdp_mmap_offsets at;
  socklen_t len = sizeof at;
  if (getsockopt(end.fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len)) die("offsets");
  end.fill = mapped(end.fd, &at.fr, 8, XDP_UMEM_PGOFF_FILL_RING);
  end.completion = mapped(end.fd, &at.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING);
  end.receive = mapped(end.fd, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
  end.transmit = mapped(end.fd, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
  struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(name)};
  address.sxdp_flags = first ? XDP_SHARED_UMEM : XDP_COPY | XDP_USE_NEED_WAKEUP;
  address.sxdp_shared_umem_fd = first ? first->fd : 0;
  if (bind(end.fd, (void *)&address, sizeof address)) die(name);
  direct(address.sxdp_ifindex, end.fd);
  return end;
}

static void give(struct end *end, uint64_t where) { ((uint64_t *)end->fill.entries)[end->fill.at++ % RING] = where; }

/* Sends arrivals of `from` by `to`, and refills what has left; each ring has room for all of the other. */
static void carry(struct end *from, struct end *to) {
  struct ring *receive = &from->receive, *transmit = &to->transmit, *completion = &to->completion;
  uint32_t ready = atomic_load_explicit(receive->producer, memory_order_acquire) - receive->at;
  uint32_t room = RING - (transmit->at - completion->at), count = ready < room ? ready : room;
  if (count > BATCH) count = BATCH;
  for (uint32_t i = 0; i < count; i++)
    ((struct xdp_desc *)transmit->entries)[transmit->at++ % RING] = ((struct xdp_desc *)receive->entries)[receive->at++ % RING];
  if (count) {
    atomic_store_explicit(receive->consumer, receive->at, memory_order_release);
    atomic_store_explicit(transmit->producer, transmit->at, memory_order_release);
  }
  if (atomic_load_explicit(transmit->consumer, memory_order_acquire) != transmit->at &&
      sendto(to->fd, 0, 0, MSG_DONTWAIT, 0, 0) < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
    die("sendto");
  uint32_t done = atomic_load_explicit(completion->producer, memory_order_acquire);
  if (done == completion->at) return;
  while (completion->at != done) give(from, ((uint64_t *)completion->entries)[completion->at++ % RING]);
  atomic_store_explicit(completion->consumer, done, memory_order_release);
  atomic_store_explicit(from->fill.producer, from->fill.at, memory_order_release);
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "xdp_loop INTERFACE INTERFACE\n"), 2;
  uint8_t *memory = mmap(0, (size_t)FRAMES * FRAME, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  struct end a = open_end(argv[1], memory, 0), b = open_end(argv[2], memory, &a);
  for (uint64_t i = 0; i < 2 * RING; i++) give(i < RING ? &a : &b, i * FRAME);
  atomic_store_explicit(a.fill.producer, a.fill.at, memory_order_release);
  atomic_store_explicit(b.fill.producer, b.fill.at, memory_order_release);
  puts("ready");
  fflush(stdout);
  for (;;) carry(&a, &b), carry(&b, &a);
}
