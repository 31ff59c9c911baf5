package structs

import "testing"

func TestFormatBytes_HidesNothing(t *testing.T) {
	for n, want := range map[int64]string{
		0:         "0 B",
		5:         "5 B",
		16 << 20:  "16 MiB",
		1 << 30:   "1.0 GiB",
		1<<30 + 1: "1.0 GiB (1073741825 bytes)",
		-1:        "-1 bytes",
		3 << 40:   "3.0 TiB",
	} {
		if got := FormatBytes(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
