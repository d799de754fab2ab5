/*
 * Peer baseline: the DPDK parts that a user joins to get one transmit path:
 *   rte_mempool -> fill 64 bytes -> rte_ring (multi-producer) -> bulk dequeue -> rte_eth_tx_burst(net_null) -> free.
 * Build:  gcc -O3 -march=native $(pkg-config --cflags libdpdk) dpdk_pipe.c -o dpdk_pipe $(pkg-config --libs libdpdk)
 * Run:    ./dpdk_pipe -l 0-1 --no-pci --vdev=net_null0,copy=0 -m 512                        one core, then two cores
 *         ./dpdk_pipe --lcores '0@0,(1-4)@(0,1)' --no-pci --vdev=net_null0,copy=0 -m 512     four senders floating over two cores
 * With -DCLOCK_EVERY=256 the clock is read once in 256 bursts instead of at every one (a read costs 9 to 29 ns in
 * virtual machines).
 * With -DMANY=1 the bursts are 1 and 32; -DRING_MODE=RING_F_MP_RTS_ENQ or RING_F_MP_HTS_ENQ is for senders that are
 * pre-empted.
 * Prints packets per second at bursts of 1, 8, 32 and 64. Wants huge pages (or --no-huge).
 * Behind "--", a burst (up to 64) and a number of bursts: sends these on one core, without a clock, and prints nothing. That is
 * for counting instructions (bench/instructions.sh).
 */
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rte_mempool *pool;
static struct rte_ring *ring;
static volatile int stop;
static unsigned burst = 32;
static int yields;

static void port_init(uint16_t port)
{
	struct rte_eth_conf conf = {0};
	rte_eth_dev_configure(port, 1, 1, &conf);
	rte_eth_rx_queue_setup(port, 0, 512, 0, NULL, pool);
	rte_eth_tx_queue_setup(port, 0, 512, 0, NULL);
	rte_eth_dev_start(port);
}

static inline unsigned produce(struct rte_mbuf **bufs, unsigned n, const char *frame)
{
	if (rte_pktmbuf_alloc_bulk(pool, bufs, n))
		return 0;
	for (unsigned i = 0; i < n; i++)
		memcpy(rte_pktmbuf_append(bufs[i], 64), frame, 64);
	return n;
}

static int sender(void *arg)
{
	char frame[64] = {1};
	struct rte_mbuf *bufs[64];
	(void)arg;
	while (!stop) {
		unsigned n = produce(bufs, burst, frame), k = 0;
		while (k < n && !stop) {
			unsigned took = rte_ring_enqueue_burst(ring, (void **)bufs + k, n - k, NULL);
			k += took;
			if (!took && yields)
				sched_yield();
		}
		for (; k < n; k++)
			rte_pktmbuf_free(bufs[k]);
		if (!n && yields)
			sched_yield();
	}
	return 0;
}

#ifndef CLOCK_EVERY
#define CLOCK_EVERY 1
#endif

/* The ring's mode for several senders: 0, RING_F_MP_RTS_ENQ or RING_F_MP_HTS_ENQ. */
#ifndef RING_MODE
#define RING_MODE 0
#endif

/* One round of a core that owns the ring. Returns the number of packets that it sent. */
static __rte_always_inline unsigned turn(int produce_too, const char *frame)
{
	struct rte_mbuf *bufs[64];
	if (produce_too) {
		unsigned n = produce(bufs, burst, frame);
		rte_ring_enqueue_burst(ring, (void **)bufs, n, NULL);
	}
	unsigned n = rte_ring_dequeue_burst(ring, (void **)bufs, burst, NULL), sent = 0;
	while (sent < n)
		sent += rte_eth_tx_burst(0, 0, bufs + sent, n - sent);
	return n;
}

static void drain(const char *label, double seconds, int produce_too)
{
	char frame[64] = {1};
	uint64_t hz = rte_get_tsc_hz(), start = rte_rdtsc(), end = start + (uint64_t)(seconds * hz), packets = 0;
	for (unsigned round = 0; round % CLOCK_EVERY || rte_rdtsc() < end; round++) {
		unsigned n = turn(produce_too, frame);
		packets += n;
		if (!n && yields)
			sched_yield();
	}
	printf("%s burst=%u %.2f Mpps\n", label, burst, packets / ((double)(rte_rdtsc() - start) / hz) / 1e6);
}

int main(int argc, char **argv)
{
#ifdef MANY
	static const unsigned bursts[] = {1, 32};
#else
	static const unsigned bursts[] = {1, 8, 32, 64};
#endif
	char label[32];
	unsigned senders, lcore;
	void *left;
	char counted_frame[64] = {1};
	int own = rte_eal_init(argc, argv);

	if (own < 0)
		return 1;
	senders = rte_lcore_count() - 1;
	yields = senders > 1;
	pool = rte_pktmbuf_pool_create("pool", 65535, 256, 0, 2176, rte_socket_id());
	ring = rte_ring_create("ring", 1024, rte_socket_id(), RING_F_SC_DEQ | RING_MODE);
	port_init(0);
	if (argc - own == 3) {
		burst = atoi(argv[own + 1]);
		for (long rounds = atol(argv[own + 2]); rounds > 0; rounds--)
			turn(1, counted_frame);
		return 0;
	}
	for (unsigned i = 0; i < sizeof bursts / sizeof *bursts && senders == 1; i++) {
		burst = bursts[i];
		drain("one-core", 1.5, 1);
	}
	snprintf(label, sizeof label, senders == 1 ? "two-core" : "senders=%u", senders);
	for (unsigned i = 0; i < sizeof bursts / sizeof *bursts; i++) {
		burst = bursts[i];
		stop = 0;
		RTE_LCORE_FOREACH_WORKER(lcore)
			rte_eal_remote_launch(sender, NULL, lcore);
		drain(label, 1.5, 0);
		stop = 1;
		rte_eal_mp_wait_lcore();
		while (!rte_ring_dequeue(ring, &left))
			rte_pktmbuf_free(left);
	}
	return 0;
}
