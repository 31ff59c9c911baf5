package peertls

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"berth/internal/pki"
	"berth/internal/pki/pkitest"
)

// BenchmarkHandshake measures both ends of a connection, from the dial to the answer to one byte, with their
// CPU time.
func BenchmarkHandshake(b *testing.B) {
	for name, resumes := range map[string]bool{"full": false, "resumed": true} {
		b.Run(name, func(b *testing.B) {
			a := pkitest.New(b, "global")
			port := open(b, a, pki.RoleServer, "s1").Server(Roles(pki.RoleNode))
			client := open(b, a, pki.RoleNode, "n1").Client(Roles(pki.RoleServer))
			way := func(conn *Conn) *tls.Config {
				config := client(conn)
				if !resumes {
					config.ClientSessionCache = nil
				}
				return config
			}
			d := dialing(serve(b, func(conn net.Conn) {
				secured := tls.Server(NewConn(conn), port)
				_, _ = io.Copy(secured, secured)
				_ = secured.Close()
			}), way, false)
			before := usedCPU(b)
			for b.Loop() {
				conn, err := d.Dial(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				mustEcho(b, conn)
				_ = conn.Close()
			}
			used := usedCPU(b) - before
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// usedCPU returns the CPU time of this process.
func usedCPU(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
