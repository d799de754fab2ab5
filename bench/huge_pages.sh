# Read by the scripts that run DPDK: 512 huge pages of 2 MiB, and hugetlbfs mounted, until the script ends.
# Files that DPDK leaves there keep their pages: it is called with --huge-unlink, or as --file-prefix=wharf..., where a peer shares them.
pages=$(cat /proc/sys/vm/nr_hugepages)
trap 'rm -f /dev/hugepages/wharf*map_*; echo "$pages" >/proc/sys/vm/nr_hugepages; rm -rf "${out:-}"' EXIT
[ "$pages" -ge 512 ] || echo 512 >/proc/sys/vm/nr_hugepages
mountpoint -q /dev/hugepages || { mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages; }
