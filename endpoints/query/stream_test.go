package query

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	msgpackrpc "github.com/hashicorp/net-rpc-msgpackrpc/v2"

	"berth/internal/codec"
	"berth/rpc"
	"berth/structs"
)

func TestStreamRows_ReturnsErrorOfRow(t *testing.T) {
	resp := new(structs.NodeListResponse)
	resp.Rows = func(do func(any) error) error {
		return errors.Join(do(&structs.NodeListStub{ID: "n1"}), errors.New("broken"))
	}
	e := rpc.Handle(structs.NodeList, nil)
	e.ServeRemote = func(context.Context, any) (any, error) { return &streamedList{resp, "Nodes"}, nil }
	srv := rpc.NewServer(hclog.NewNullLogger(), e)
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		srv.ServeConn(far)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		srv.Close()
		<-served
	})
	c := msgpackrpc.NewCodecFromHandle(true, true, near, codec.Handle)
	err := msgpackrpc.CallWithCodec(c, e.Name, &structs.QueryRequest{}, new(structs.NodeListResponse))
	if err == nil || !strings.HasSuffix(err.Error(), "broken") {
		t.Errorf("got %v", err)
	}
}
