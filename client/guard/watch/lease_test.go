package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"berth/internal/boottime"
)

const (
	testBoot  = "01234567-89ab-cdef-0123-456789abcdef"
	laterBoot = "fedcba98-89ab-cdef-0123-456789abcdef"
)

// writtenLease returns the path of a file with two leases, of which the second is the newer.
func writtenLease(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lease")
	f, err := OpenLease(path, testBoot)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, until := range []boottime.Instant{100, 200} {
		if err := f.Write(until); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestRead_ReturnsTheNewestLease(t *testing.T) {
	path := writtenLease(t)
	l, err := ReadLease(path, testBoot)
	if err != nil || l.Until != 200 || l.Sequence != 2 {
		t.Fatalf("got %+v, %v", l, err)
	}

	again, err := OpenLease(path, testBoot) // by an agent that has restarted
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := again.Write(150); err != nil { // a new leader may grant less
		t.Fatal(err)
	}
	l, err = ReadLease(path, testBoot)
	if err != nil || l.Until != 150 || l.Sequence != 3 {
		t.Errorf("after a restart: got %+v, %v", l, err)
	}
}

func TestRead_OfNoLeaseOfThisBootIsItsEnd(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing":  os.Remove,
		"empty":    func(path string) error { return os.Truncate(path, 0) },
		"cut":      func(path string) error { return os.Truncate(path, 20) },
		"zeros":    func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o600) },
		"two torn": func(path string) error { return flipBytes(path, 50, slotSize+50) },
	} {
		path := writtenLease(t)
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		if l, err := ReadLease(path, testBoot); !errors.Is(err, ErrLeaseEnded) {
			t.Errorf("%s: got %+v, %v", name, l, err)
		}
	}
	if l, err := ReadLease(writtenLease(t), laterBoot); !errors.Is(err, ErrLeaseEnded) {
		t.Errorf("of another boot: got %+v, %v", l, err)
	}
}

// The writer may stop for ever in the middle of a write.
func TestRead_OfATornWriteReturnsTheLeaseBefore(t *testing.T) {
	path := writtenLease(t)
	if err := flipBytes(path, 50); err != nil { // the second write is in the first slot
		t.Fatal(err)
	}
	l, err := ReadLease(path, testBoot)
	if err != nil || l.Until != 100 {
		t.Errorf("got %+v, %v", l, err)
	}
}

// flipBytes changes bytes of a file.
func flipBytes(path string, at ...int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, i := range at {
		b[i] ^= 0x80
	}
	return os.WriteFile(path, b, 0o600)
}

func TestRead_WithAnErrorDoesNotKnow(t *testing.T) {
	if _, err := ReadLease(t.TempDir(), testBoot); err == nil || errors.Is(err, ErrLeaseEnded) {
		t.Errorf("of a directory: got %v", err)
	}
}
