package rights

import (
	"context"

	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// ForPeople returns a caller for the requests of people and tools, as those of the HTTP API. A request
// without a token says so: one without any secret would be one of the agent for itself.
func ForPeople(c rpc.Caller) rpc.Caller { return ofPeople{c} }

type ofPeople struct{ caller rpc.Caller }

func (c ofPeople) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Query() *structs.QueryOptions }:
		name(&r.Query().AuthToken)
	case interface{ Write() *structs.WriteOptions }:
		name(&r.Write().AuthToken)
	}
	return c.caller.Call(ctx, method, req, resp)
}

func name(secret *string) {
	if *secret == "" {
		*secret = access.Anonymous
	}
}
