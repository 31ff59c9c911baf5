package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/crc32c"
)

// Lease is the content of the file.
type Lease struct {
	Until    boottime.Instant
	Sequence uint64 // grows with each write
}

// ErrLeaseEnded is the error of a file without a lease: it is missing, damaged, or of another boot.
var ErrLeaseEnded = errors.New("the file has no lease of this boot")

// A slot has, in this order: the magic, the boot ID as text, the sequence and the end of the lease in
// little-endian order, and the CRC-32 (Castagnoli) of all before it.
const (
	leaseMagic = "berthls1"
	bootSize   = 36
	sumAt      = len(leaseMagic) + bootSize + 16
	slotSize   = 128
)

// LeaseFile has the end of the node's lease in a small file in memory. The agent writes it at each renewal,
// and the guard reads it, which needs neither the agent nor a disk.
//
// Its rules:
//
//   - A write replaces the older of two slots. A writer that stops in the middle of a write, or for ever, so
//     leaves the lease as it was.
//   - A slot counts only with its checksum and under the boot that it names. A file without such a slot, and
//     a missing one, is a lease that has ended.
//   - It is read and written by calls, not by a mapping: a reader of a mapped file ends by a signal if
//     another process cuts the file.
type LeaseFile struct {
	f    *os.File
	boot string
	last Lease
	slot int // of last
}

// OpenLease opens the file, and makes it if it is missing. boot is the ID of this boot.
func OpenLease(path, boot string) (*LeaseFile, error) {
	if len(boot) != bootSize {
		return nil, fmt.Errorf("the boot ID %q has %d bytes; expected %d", boot, len(boot), bootSize)
	}

	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}

	lf := &LeaseFile{f: f, boot: boot}
	lf.last, lf.slot, err = readSlots(f, boot)
	if err != nil && !errors.Is(err, ErrLeaseEnded) {
		return nil, errors.Join(err, f.Close())
	}

	return lf, nil
}

// Write makes until the end of the lease.
func (lf *LeaseFile) Write(until boottime.Instant) error {
	next := Lease{Until: until, Sequence: lf.last.Sequence + 1}
	slot := 1 - lf.slot
	_, err := lf.f.WriteAt(encodeLease(next, lf.boot), int64(slot*slotSize))
	if err != nil {
		return fmt.Errorf("writing the end of the lease: %w", err)
	}
	lf.last = next
	lf.slot = slot
	return nil
}

// Close closes the file, and leaves its content.
func (lf *LeaseFile) Close() error { return lf.f.Close() }

// ReadLease returns the lease in a file. Without one of this boot the error is ErrLeaseEnded. With another
// error the lease is not known.
func ReadLease(path, boot string) (Lease, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Lease{}, ErrLeaseEnded
	}
	if err != nil {
		return Lease{}, err
	}
	defer func() { _ = f.Close() }()

	l, _, err := readSlots(f, boot)
	return l, err
}

// readSlots returns the lease of the newest valid slot, and its slot.
func readSlots(f io.ReaderAt, boot string) (newest Lease, slot int, err error) {
	both := make([]byte, 2*slotSize)
	n, err := f.ReadAt(both, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Lease{}, 0, err
	}

	found := false
	for i := range 2 {
		begin := i * slotSize
		end := begin + sumAt + 4
		if n < end {
			break
		}
		l, ok := decodeLease(both[begin:end], boot)
		if ok && (!found || l.Sequence > newest.Sequence) {
			found = true
			newest = l
			slot = i
		}
	}
	if !found {
		return Lease{}, 0, ErrLeaseEnded
	}
	return newest, slot, nil
}

func encodeLease(l Lease, boot string) []byte {
	b := make([]byte, 0, slotSize)
	b = append(b, leaseMagic...)
	b = append(b, boot...)
	b = binary.LittleEndian.AppendUint64(b, l.Sequence)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.Until))
	b = binary.LittleEndian.AppendUint32(b, crc32c.Sum(b))
	return b[:slotSize] // the second slot begins behind it
}

func decodeLease(b []byte, boot string) (Lease, bool) {
	own := append([]byte(leaseMagic), boot...)
	if string(b[:len(own)]) != string(own) ||
		binary.LittleEndian.Uint32(b[sumAt:]) != crc32c.Sum(b[:sumAt]) {
		return Lease{}, false
	}

	rest := b[len(own):]
	return Lease{
		Sequence: binary.LittleEndian.Uint64(rest),
		Until:    boottime.Instant(binary.LittleEndian.Uint64(rest[8:])),
	}, true
}
