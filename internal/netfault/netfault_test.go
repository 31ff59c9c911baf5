package netfault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestPlain_SaysWhatOperatorsUnderstand(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	_, refused := net.Dial("tcp", ln.Addr().String())
	_, missing := net.Dial("unix", "/nowhere/at/all")
	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, slow := new(net.Dialer).DialContext(late, "tcp", ln.Addr().String())
	for err, want := range map[error]string{
		refused: "nothing is listening there", missing: "there is no such socket", slow: "it does not answer in time",
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}: "there is no way to that host",
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}:      "the connection was lost",
		fmt.Errorf("reading: %w", io.ErrUnexpectedEOF):                                     "the connection was lost",
		&net.OpError{Op: "dial", Err: &net.DNSError{Name: "n1", IsNotFound: true}}:         "there is no host named n1",
		os.ErrDeadlineExceeded: "it does not answer in time",
		context.Canceled:       "the caller gave up",
		errors.New("disk"):     "disk",
	} {
		got := Plain(err)
		if got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
