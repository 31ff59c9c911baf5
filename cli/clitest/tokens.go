package clitest

import (
	"context"
	"fmt"
	"strings"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
)

// answerJoinTokens answers the requests about join tokens. There is one for nodes and one for servers.
func (w *Cluster) answerJoinTokens() {
	apitest.On(w.Caller, cluster.JoinTokenCreate,
		func(_ context.Context, r *cluster.JoinTokenCreateRequest) (*cluster.JoinTokenCreateResponse, error) {
			return &cluster.JoinTokenCreateResponse{
				ID: "new",
				Token: strings.TrimSuffix(fmt.Sprintf("berth-join-1-of-%s-%s-%d-%s-%s",
					r.Role, r.NodePool, r.Uses, r.TTL, r.NodeName), "-"),
			}, nil
		})

	apitest.On(w.Caller, cluster.JoinTokenList,
		func(context.Context, *structs.QueryRequest) (*cluster.JoinTokenListResponse, error) {
			return &cluster.JoinTokenListResponse{Tokens: []*cluster.JoinToken{
				{
					ID:         "n1",
					Hash:       []byte("hash"),
					Role:       cluster.JoinNode,
					NodePool:   "gpu",
					Uses:       2,
					ExpireTime: Today.UnixNano(),
				},
				{
					ID:         "s1",
					Hash:       []byte("hash"),
					Role:       cluster.JoinServer,
					Uses:       1,
					ExpireTime: Today.UnixNano(),
				},
			}}, nil
		})

	apitest.On(w.Caller, cluster.JoinTokenDelete,
		func(context.Context, *cluster.JoinTokenDeleteRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})
}
