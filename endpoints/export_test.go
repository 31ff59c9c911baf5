package endpoints

import (
	"context"

	"berth/rpc"
	"berth/structs"
)

// Anyone is the rule of methods for operators.
var Anyone rule = anyone

// SocketOnly is the rule of methods for the operator socket.
func (e *Endpoints) SocketOnly(ctx context.Context, node *structs.Node) error {
	return e.socketOnly(ctx, node)
}

// Write serves a method of a test.
func Write[Req, Resp any, W written[Resp]](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rule,
	handle func(context.Context, *Req, *Resp) (index uint64, err error),
) rpc.Endpoint {
	return write[Req, Resp, W](e, m, allow, handle)
}
