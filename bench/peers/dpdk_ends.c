/*
 * Peer of bench/switch.sh: two ports of DPDK's on one thread, one after the other. Port 0 sends 64-byte frames to the address of
 * port 1 as fast as its ring takes them (testpmd's txonly), and port 1 counts and frees what arrives (rxonly). Two testpmds on one
 * processor would wait for each other's time slices instead. Port 1 sends a frame now and then: a switch learns where it is.
 * Build:  gcc -O3 -march=native $(pkg-config --cflags libdpdk) dpdk_ends.c -o dpdk_ends $(pkg-config --libs libdpdk)
 * Run:    ./dpdk_ends EAL-OPTIONS --vdev net_virtio_user0,path=A --vdev net_virtio_user1,path=B -- SECONDS
 * A second after the first frame it begins to count, and prints the millions of packets per second sent and received.
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 32, DESCRIPTORS = 256, FRAME = 64, PATIENCE_SECONDS = 20 };

static struct rte_mempool *pool;
static unsigned char frames[2][FRAME];

static void fail(const char *what)
{
	fprintf(stderr, "dpdk_ends: %s\n", what);
	exit(1);
}

static void port_init(uint16_t port)
{
	struct rte_eth_conf conf = {0};
	struct rte_ether_addr own;
	if (rte_eth_dev_configure(port, 1, 1, &conf) || rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, 0, NULL, pool) ||
	    rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, 0, NULL) || rte_eth_dev_start(port) || rte_eth_macaddr_get(port, &own))
		fail("a port does not start");
	memcpy(frames[port] + 6, own.addr_bytes, 6);
	memcpy(frames[!port], own.addr_bytes, 6);
	memcpy(frames[port] + 12, "\x88\xb5", 2);
}

/* Makes frames of `port` in place of those that have left, and sends what the ring takes. `waiting` is how many are left. */
static inline unsigned send_from(uint16_t port, struct rte_mbuf **bufs, unsigned *waiting)
{
	if (*waiting == 0) {
		if (rte_pktmbuf_alloc_bulk(pool, bufs, BURST))
			return 0;
		for (unsigned i = 0; i < BURST; i++)
			memcpy(rte_pktmbuf_append(bufs[i], FRAME), frames[port], FRAME);
		*waiting = BURST;
	}
	unsigned took = rte_eth_tx_burst(port, 0, bufs + BURST - *waiting, *waiting);
	*waiting -= took;
	return took;
}

static inline unsigned receive_at(uint16_t port)
{
	struct rte_mbuf *bufs[BURST];
	unsigned n = rte_eth_rx_burst(port, 0, bufs, BURST);
	if (n)
		rte_pktmbuf_free_bulk(bufs, n);
	return n;
}

static void be_seen(uint16_t port)
{
	struct rte_mbuf *one = rte_pktmbuf_alloc(pool);
	if (!one)
		return;
	memcpy(rte_pktmbuf_append(one, FRAME), frames[port], FRAME);
	if (!rte_eth_tx_burst(port, 0, &one, 1))
		rte_pktmbuf_free(one);
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);
	if (used < 0 || argc - used < 2)
		fail("usage: EAL options -- SECONDS");
	uint64_t hz = rte_get_tsc_hz(), length = strtoull(argv[used + 1], NULL, 10) * hz;
	pool = rte_pktmbuf_pool_create("p", 8191, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, rte_socket_id());
	if (!pool || rte_eth_dev_count_avail() != 2)
		fail("no memory, or not two ports");
	port_init(0);
	port_init(1);
	struct rte_mbuf *bufs[BURST];
	unsigned waiting = 0;
	uint64_t sent = 0, received = 0, turns = 0, seen = 0, begun = rte_rdtsc(), counting = 0, now = begun;
	while (!counting || now < counting + length) {
		unsigned out = send_from(0, bufs, &waiting), in = receive_at(1);
		receive_at(0);
		if (counting && now >= counting)
			sent += out, received += in;
		else if (!counting && in)
			counting = now + hz;
		if (turns++ % 16)
			continue;
		now = rte_rdtsc();
		if (!counting && now > begun + PATIENCE_SECONDS * hz)
			fail("nothing arrives");
		if (now > seen + hz / 4)
			be_seen(1), seen = now;
	}
	double seconds = (double)(now - counting) / hz;
	printf("sent %.3f received %.3f Mpps\n", sent / seconds / 1e6, received / seconds / 1e6);
	fflush(stdout);
	rte_eth_dev_stop(0);
	rte_eth_dev_stop(1);
	return 0;
}
