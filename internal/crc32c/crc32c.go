// Package crc32c sums small records by CRC-32 (Castagnoli) without a table. Each process would make the
// table at its start, which takes longer than to sum a few records. It is small because the supervisor of
// tasks and the watch of the guard need it, which have few packages.
package crc32c

import "hash/crc32"

// Sum returns the checksum of b.
func Sum(b []byte) uint32 {
	sum := ^uint32(0)
	for _, c := range b {
		sum ^= uint32(c)
		for range 8 {
			odd := sum & 1
			sum >>= 1
			sum ^= crc32.Castagnoli * odd
		}
	}
	return ^sum
}
