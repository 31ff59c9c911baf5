package clitest

import (
	"context"
	"fmt"
	"strings"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/admin"
)

// answerJoinTokens answers the requests about join tokens. There is one for nodes and one for servers.
func (w *Cluster) answerJoinTokens() {
	apitest.On(w.Caller, admin.JoinTokenCreate,
		func(_ context.Context, r *admin.JoinTokenCreateRequest) (*admin.JoinTokenCreateResponse, error) {
			return &admin.JoinTokenCreateResponse{
				ID: "new",
				Token: strings.TrimSuffix(fmt.Sprintf("berth-join-1-of-%s-%s-%d-%s-%s",
					r.Role, r.NodePool, r.Uses, r.TTL, r.NodeName), "-"),
			}, nil
		})

	apitest.On(w.Caller, admin.JoinTokenList,
		func(context.Context, *structs.QueryRequest) (*admin.JoinTokenListResponse, error) {
			return &admin.JoinTokenListResponse{Tokens: []*admin.JoinToken{
				{
					ID:         "n1",
					Hash:       []byte("hash"),
					Role:       admin.JoinNode,
					NodePool:   "gpu",
					Uses:       2,
					ExpireTime: Today.UnixNano(),
				},
				{
					ID:         "s1",
					Hash:       []byte("hash"),
					Role:       admin.JoinServer,
					Uses:       1,
					ExpireTime: Today.UnixNano(),
				},
			}}, nil
		})

	apitest.On(w.Caller, admin.JoinTokenDelete,
		func(context.Context, *admin.JoinTokenDeleteRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})
}
