package agent

import (
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/loadshed"
)

// BenchmarkReadOverHTTP reads an empty list of volumes, served and rejected. It reports the CPU time of the
// server alone.
func BenchmarkReadOverHTTP(b *testing.B) {
	b.Run("served", func(b *testing.B) {
		srv := serveUnderGate(b, loadshed.NewGate(loadshed.MinAdmit))
		exchange(b, portOf(srv), http.StatusOK)
	})
	b.Run("rejected", func(b *testing.B) {
		srv := serveUnderGate(b, newRejectingGate(999))
		exchange(b, portOf(srv), http.StatusServiceUnavailable)
	})
}

func portOf(srv *httptest.Server) int {
	return srv.Listener.Addr().(*net.TCPAddr).Port
}

// exchange sends requests over many connections at once and repeats after all answers. It runs on one thread,
// so its CPU time is separate from the server's.
func exchange(b *testing.B, port, status int) {
	const head = "GET /v1/volumes?namespace=default HTTP/1.1\r\n" +
		"Host: 127.0.0.1:4646\r\n" +
		"User-Agent: Go-http-client/1.1\r\n" +
		"Accept-Encoding: gzip\r\n\r\n"
	var conns [32]int
	for n := range conns {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{
				Port: port,
				Addr: [4]byte{127, 0, 0, 1},
			})
		}
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = unix.Close(fd) }()
		conns[n] = fd
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf := make([]byte, 4096)
	good := 0
	b.ReportAllocs()
	b.ResetTimer()
	all := cpuNanos(unix.RUSAGE_SELF)
	mine := cpuNanos(unix.RUSAGE_THREAD)
	for left := b.N; left > 0; left -= len(conns) {
		for _, fd := range conns[:min(left, len(conns))] {
			_, err := unix.Write(fd, []byte(head))
			if err != nil {
				b.Fatal(err)
			}
		}
		for _, fd := range conns[:min(left, len(conns))] {
			n, err := unix.Read(fd, buf)
			if err != nil || n < 12 {
				b.Fatal(n, err)
			}
			if string(buf[9:12]) == strconv.Itoa(status) {
				good++
			}
		}
	}
	all = cpuNanos(unix.RUSAGE_SELF) - all
	mine = cpuNanos(unix.RUSAGE_THREAD) - mine
	b.ReportMetric(float64(all-mine)/float64(b.N), "server-ns/op")
	if good < b.N*9/10 {
		b.Errorf("%d of %d answers have status %d", good, b.N, status)
	}
}

// cpuNanos returns the CPU time of the process or of the thread in nanoseconds.
func cpuNanos(who int) int64 {
	var u unix.Rusage
	_ = unix.Getrusage(who, &u) // it cannot fail for oneself
	return u.Utime.Nano() + u.Stime.Nano()
}
