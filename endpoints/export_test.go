package endpoints

import (
	"context"

	"berth/endpoints/rights"
	"berth/rpc"
	"berth/structs"
)

// Write serves a method of a test.
func Write[Req, Resp any, W written[Resp]](
	e *Endpoints,
	m structs.Method[Req, Resp],
	allow rights.Right,
	handle func(context.Context, *Req, *Resp) (index uint64, err error),
) rpc.Endpoint {
	return write[Req, Resp, W](e, m, allow, handle)
}
