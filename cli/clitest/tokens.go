package clitest

import (
	"context"
	"fmt"

	"berth/api/apitest"
	"berth/structs"
)

// answerJoinTokens answers the requests about join tokens. There is one for nodes and one for servers.
func (w *Cluster) answerJoinTokens() {
	apitest.On(w.Caller, structs.JoinTokenCreate,
		func(_ context.Context, r *structs.JoinTokenCreateRequest) (*structs.JoinTokenCreateResponse, error) {
			return &structs.JoinTokenCreateResponse{
				ID:    "new",
				Token: fmt.Sprintf("berth-join-1-of-%s-%s-%d-%s", r.Role, r.NodePool, r.Uses, r.TTL),
			}, nil
		})

	apitest.On(w.Caller, structs.JoinTokenList,
		func(context.Context, *structs.QueryRequest) (*structs.JoinTokenListResponse, error) {
			return &structs.JoinTokenListResponse{Tokens: []*structs.JoinToken{
				{
					ID:         "n1",
					Hash:       []byte("hash"),
					Role:       structs.JoinNode,
					NodePool:   "gpu",
					Uses:       2,
					ExpireTime: Today.UnixNano(),
				},
				{
					ID:         "s1",
					Hash:       []byte("hash"),
					Role:       structs.JoinServer,
					Uses:       1,
					ExpireTime: Today.UnixNano(),
				},
			}}, nil
		})

	apitest.On(w.Caller, structs.JoinTokenDelete,
		func(context.Context, *structs.JoinTokenDeleteRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})
}
