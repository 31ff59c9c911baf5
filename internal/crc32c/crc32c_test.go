package crc32c

import (
	"bytes"
	"hash/crc32"
	"testing"
)

func TestSum_IsCRC32C(t *testing.T) {
	b := bytes.Repeat([]byte("record \x00\xff"), 30)
	for n := range b {
		want := crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli))
		if got := Sum(b[:n]); got != want {
			t.Fatalf("%d bytes: got %08x, want %08x", n, got, want)
		}
	}
}
