package raftnet

import (
	"net"
	"testing"
)

func TestAdvertisedAddress_ResolvesTheSetting(t *testing.T) {
	bound := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4747}
	for configured, want := range map[string]string{
		"": "127.0.0.1:4747", "10.0.0.7:0": "10.0.0.7:4747", "10.0.0.7:99": "10.0.0.7:99",
		"localhost:5": "127.0.0.1:5",
	} {
		got, err := AdvertisedAddress(bound, configured)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", configured, got, err, want)
		}
	}
}
