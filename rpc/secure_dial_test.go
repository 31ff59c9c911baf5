package rpc

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/peertls"
)

func TestSecureDialer_HasOneTimeForBothConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given []time.Duration
		connect := func(_ string, timeout time.Duration) (net.Conn, error) {
			given = append(given, timeout)
			near, far := net.Pipe()
			go func() {
				b := make([]byte, 1<<16)
				_, _ = far.Read(b) // the byte that selects TLS
				_, _ = far.Read(b)
				time.Sleep(time.Second)
				_ = far.Close() // it does not speak TLS
			}()
			return near, nil
		}
		client := func(*peertls.Conn) *tls.Config { return &tls.Config{ServerName: "s1"} }
		conn, err := SecureDialer(connect, client, true)("s1", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		synctest.Wait()
		time.Sleep(2 * time.Second) // the far ends close
		if len(given) != 2 || given[0] != 10*time.Second || given[1] != 9*time.Second {
			t.Errorf("the connections had %v", given)
		}
	})
}
