package rpc

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/codec"
	"berth/structs"
)

// BenchmarkRejectedBesideServed is the cost of a request, both ends together, over few plain connections with
// many requests in flight on each. The request is served inline, served by its own goroutine, or rejected
// because of a bound. The other end is no client and sends prepared bytes.
func BenchmarkRejectedBesideServed(b *testing.B) {
	volume := &structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{CSIVolume: structs.CSIVolume{
		ID: "volume-1", Namespace: structs.DefaultNamespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:       "a volume",
			ExternalID: "ext-1",
			PluginID:   "plugin",
			Context:    map[string]string{"a": "b", "c": "d"},
		},
	}}}
	serve := func(m structs.Method[structs.CSIVolumeGetRequest, structs.CSIVolumeGetResponse]) Endpoint {
		e := Handle(m, func(context.Context, *structs.CSIVolumeGetRequest) (*structs.CSIVolumeGetResponse, error) {
			return volume, nil
		})
		e.Sheddable = true
		e.Inline = func(any) bool { return true }
		return e
	}
	own := serve(structs.Method[structs.CSIVolumeGetRequest, structs.CSIVolumeGetResponse]{Name: "Test.Own"})
	own.Inline = nil
	endpoints := []Endpoint{serve(structs.CSIVolumeGet), own}
	req := &structs.CSIVolumeGetRequest{ID: "volume-1"}
	for _, c := range []struct {
		name, method string
		shed         bool
	}{
		{"served inline", structs.CSIVolumeGet.Name, false},
		{"served by a goroutine", own.Name, false},
		{"rejected", structs.CSIVolumeGet.Name, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := NewServer(hclog.NewNullLogger(), endpoints...)
			if c.shed {
				s.Shed(rejectingGate())
			}
			body, err := codec.Append(nil, req)
			if err != nil {
				b.Fatal(err)
			}
			exchangeAll(b, s, c.method, body)
		})
	}
}

// exchangeAll sends a benchmark's requests over a few connections, many at a time, and reads the answers.
func exchangeAll(b *testing.B, s *Server, method string, body []byte) {
	const conns, each = 4, 128
	addr := listen(b, s, 0)
	var sending sync.WaitGroup
	var batch []byte
	for n := range each {
		batch = append(appendRequestHead(batch, method, uint64(n)), body...)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range conns {
		sending.Go(func() {
			if err := exchange(addr, batch, each, b.N/conns+1); err != nil {
				b.Error(err)
			}
		})
	}
	sending.Wait()
	b.StopTimer()
}

// exchange sends batches of each requests until total are answered. It sends a batch when half of the one
// before is answered.

func exchange(addr string, batch []byte, each, total int) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(append([]byte{ByteRPC}, batch...)); err != nil {
		return err
	}
	in := newMessages(conn, structs.MaxRPCAnswer)
	in.buf = make([]byte, 0, keptBuffer)
	for sent, got := each, 0; got < total; got++ {
		if got == sent-each/2 {
			if _, err := conn.Write(batch); err != nil {
				return err
			}
			sent += each
		}
		for range 2 {
			if _, err := in.next(); err != nil {
				return err
			}
		}
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}
