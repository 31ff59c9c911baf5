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

// BenchmarkRefusedBesideServed is the cost of a request, both ends together, over few plain connections with
// many requests in flight on each. The request is served inline, served by its own goroutine, or rejected
// because of a bound. The other end is no client and sends prepared bytes.
func BenchmarkRefusedBesideServed(b *testing.B) {
	volume := &structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{CSIVolume: structs.CSIVolume{
		ID: "volume-1", Namespace: structs.DefaultNamespace, Name: "a volume", ExternalID: "ext-1",
		PluginID: "plugin",
		Context:  map[string]string{"a": "b", "c": "d"},
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
		flooded      bool
	}{
		{"served", structs.CSIVolumeGet.Name, false},
		{"served by its own", own.Name, false},
		{"refused", structs.CSIVolumeGet.Name, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := NewServer(hclog.NewNullLogger(), endpoints...)
			if c.flooded {
				s.Shed(refusing())
			}
			body, err := codec.Append(nil, req)
			if err != nil {
				b.Fatal(err)
			}
			flood(b, s, c.method, body)
		})
	}
}

// flood sends a benchmark's requests over a few connections, many at a time, and reads the answers.
func flood(b *testing.B, s *Server, method string, body []byte) {
	const conns, each = 4, 128
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var serving, sending sync.WaitGroup
	serving.Go(func() {
		NewListener(ln, hclog.NewNullLogger(), map[byte]func(net.Conn){ByteRPC: s.ServeConn}).Run(ctx)
	})
	defer func() { cancel(); s.Close(); serving.Wait() }()
	var batch []byte
	for n := range each {
		batch = append(appendRequestHead(batch, method, uint64(n)), body...)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range conns {
		sending.Go(func() {
			if err := exchange(ln.Addr().String(), batch, each, b.N/conns+1); err != nil {
				b.Error(err)
			}
		})
	}
	sending.Wait()
	b.StopTimer()
}

// exchange sends batches of so many requests, one when half of the one before is answered, until total are.
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
