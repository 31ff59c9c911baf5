package sandbox

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Filter is a compiled filter of system calls, apart from its compiler: the first process of a sandbox
// installs the filter that the agent has compiled, so that its program is small.
//
// The zero Filter cannot be installed.
type Filter []unix.SockFilter

// Install binds the calling thread and all its descendants to the filter for good. The thread has
// no_new_privs, or CAP_SYS_ADMIN.
func (f Filter) Install() error {
	prog := unix.SockFprog{
		Len:    uint16(len(f)),
		Filter: unsafe.SliceData(f),
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP,
		unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return fmt.Errorf("installing the seccomp filter: %w", errno)
	}
	return nil
}

// instructionSize is the size of an instruction in the text.
const instructionSize = 8

// MarshalText implements encoding.TextMarshaler.
func (f Filter) MarshalText() ([]byte, error) {
	b := make([]byte, 0, len(f)*instructionSize)
	for _, i := range f {
		// The text goes from the agent to a process on the same machine, so the order of bytes is the
		// machine's.
		b = binary.NativeEndian.AppendUint16(b, i.Code)
		b = append(b, i.Jt, i.Jf)
		b = binary.NativeEndian.AppendUint32(b, i.K)
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Filter) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("decoding a seccomp filter: %w", err)
	}

	if len(b)%instructionSize != 0 {
		return fmt.Errorf("a seccomp filter has %d bytes: expected instructions of %d",
			len(b), instructionSize)
	}

	*f = make(Filter, 0, len(b)/instructionSize)
	for ; len(b) > 0; b = b[instructionSize:] {
		*f = append(*f, unix.SockFilter{
			Code: binary.NativeEndian.Uint16(b),
			Jt:   b[2],
			Jf:   b[3],
			K:    binary.NativeEndian.Uint32(b[4:]),
		})
	}

	return nil
}
