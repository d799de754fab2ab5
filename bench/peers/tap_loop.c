/* The least that the kernel allows between two TAPs: one thread reads a packet with its header from one and writes it to the
 * other, both ways, and waits when there is none. Usage: tap_loop NAME NAME [BYTES OF EACH PIECE] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define PACKET_BYTES 65607
#define PIECES_MAX 64

static char buffer[10 + PACKET_BYTES];

static int open_tap(const char *name) {
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK), bytes = 10;
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0 || ioctl(fd, TUNSETVNETHDRSZ, &bytes) < 0 ||
      (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN | 0x60) < 0 &&
       ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)) {
    perror(name);
    exit(1);
  }
  return fd;
}

/* Splits a packet into pieces of up to `bytes`. Returns their number. */
static int cut(struct iovec *pieces, size_t bytes, size_t piece_bytes) {
  int count = 0;
  for (size_t at = 0; at < bytes; at += pieces[count++].iov_len)
    pieces[count] = (struct iovec){buffer + at, bytes - at < piece_bytes ? bytes - at : piece_bytes};
  return count;
}

/* Carries up to 64 packets. Returns their number. */
static int carry(int from, int to, size_t piece_bytes) {
  struct iovec in[PIECES_MAX], out[PIECES_MAX];
  int pieces = cut(in, sizeof buffer, piece_bytes), count = 0;
  for (; count < 64; count++) {
    ssize_t bytes = readv(from, in, pieces);
    if (bytes < 0) break;
    if (writev(to, out, cut(out, bytes, piece_bytes)) < 0 && errno != EIO) perror("write");
  }
  return count;
}

int main(int argc, char **argv) {
  size_t piece_bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : sizeof buffer;
  if (argc < 3 || piece_bytes < sizeof buffer / PIECES_MAX + 1) return 2;
  int ends[2] = {open_tap(argv[1]), open_tap(argv[2])};
  struct pollfd wait[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}};
  puts("ready");
  fflush(stdout);
  for (;;)
    if (carry(ends[0], ends[1], piece_bytes) + carry(ends[1], ends[0], piece_bytes) == 0) poll(wait, 2, -1);
}
