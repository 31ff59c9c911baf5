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

func TestPlain_ExplainsKnownErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	_, rejected := net.Dial("tcp", ln.Addr().String())
	_, missing := net.Dial("unix", "/nowhere/at/all")
	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, slow := new(net.Dialer).DialContext(late, "tcp", ln.Addr().String())
	unreachable := os.NewSyscallError("connect", syscall.EHOSTUNREACH)
	reset := os.NewSyscallError("read", syscall.ECONNRESET)
	unknown := &net.DNSError{Name: "n1", IsNotFound: true}
	for _, c := range []struct {
		err  error
		want string
	}{
		{rejected, "nothing is listening there"},
		{missing, "there is no such socket"},
		{slow, "it does not answer in time"},
		{&net.OpError{Op: "dial", Err: unreachable}, "there is no route to that host"},
		{&net.OpError{Op: "read", Err: reset}, "the connection was lost"},
		{fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), "the connection was lost"},
		{&net.OpError{Op: "dial", Err: unknown}, "there is no host named n1"},
		{os.ErrDeadlineExceeded, "it does not answer in time"},
		{context.Canceled, "the call was cancelled"},
		{errors.New("disk"), "disk"},
	} {
		got := Plain(c.err)
		if got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
