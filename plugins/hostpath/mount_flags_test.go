package hostpath

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMountFlags_AreParsed(t *testing.T) {
	for _, tc := range []struct {
		in   []string
		bits uintptr
		data []string
		bad  bool
	}{
		{in: nil},
		{in: []string{"defaults", ""}},
		{in: []string{"ro,noatime", " nosuid "}, bits: unix.MS_RDONLY | unix.MS_NOATIME | unix.MS_NOSUID},
		{in: []string{"ro", "rw"}},
		{in: []string{"data=journal", "discard"}, data: []string{"data=journal", "discard"}},
		{in: []string{"bind"}, bad: true},
		{in: []string{"rshared"}, bad: true},
		{in: []string{"ro,remount"}, bad: true},
		{in: []string{"loop=/dev/loop0"}, bad: true},
	} {
		bits, data, err := mountFlags(tc.in)
		if bits != tc.bits || !slices.Equal(data, tc.data) || (err != nil) != tc.bad {
			t.Errorf("%q: got %x, %q, %v; want %x, %q", tc.in, bits, data, err, tc.bits, tc.data)
		}
	}
}

func FuzzMountFlags(f *testing.F) {
	f.Add("ro,noatime,data=journal")
	f.Fuzz(func(t *testing.T, s string) {
		bits, _, err := mountFlags([]string{s})
		if err == nil && bits&(unix.MS_BIND|unix.MS_REMOUNT|unix.MS_MOVE|unix.MS_SHARED) != 0 {
			t.Fatalf("%q sets %x", s, bits)
		}
	})
}
