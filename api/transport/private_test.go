package transport_test

import (
	"testing"

	"berth/api/transport"
)

func TestPrivate_IsWhatOthersCannotRead(t *testing.T) {
	for address, want := range map[string]bool{
		"https://10.0.0.1:4646":         true,
		"unix:///run/berth.sock":        true,
		"http://127.0.0.1:4646":         true,
		"127.8.0.1:4646":                true,
		"http://[::1]:4646":             true,
		"http://[::ffff:127.0.0.1]:1":   true,
		"http://localhost:4646":         true,
		"http://10.0.0.1:4646":          false,
		"10.0.0.1:4646":                 false,
		"http://localhost.example:4646": false,
		"http://127.0.0.1.example:4646": false,
		"http://":                       false,
		"":                              false,
		"ftp://127.0.0.1":               false,
	} {
		if got := transport.Private(address); got != want {
			t.Errorf("%q: got %t", address, got)
		}
	}
}
