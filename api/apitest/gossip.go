package apitest

import (
	"context"
	"slices"

	"berth/structs"
	"berth/structs/gossipkey"
)

// GossipKeyring changes GossipKeys, of which the first is the primary key, for three servers. It is denied
// with the socket of GossipDenied.
func (a *Agent) GossipKeyring(
	_ context.Context, op gossipkey.Operation, key string,
) (*gossipkey.Keyrings, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.GossipDenied != "" {
		return nil, &structs.Error{Kind: structs.KindDenied, Text: "it needs the socket", Socket: a.GossipDenied}
	}
	at := slices.Index(a.GossipKeys, key)
	switch {
	case op == gossipkey.Remove && at == 0:
		return nil, structs.Preconditionf("it is the primary key of 3 of 3 servers")
	case op == gossipkey.Use && at < 0:
		return nil, structs.Preconditionf("0 of 3 servers have the key")
	case op == gossipkey.Install && at < 0:
		a.GossipKeys = append(a.GossipKeys, key)
	case op == gossipkey.Use:
		a.GossipKeys = append([]string{key}, slices.Delete(a.GossipKeys, at, at+1)...)
	case op == gossipkey.Remove && at > 0:
		a.GossipKeys = slices.Delete(a.GossipKeys, at, at+1)
	}
	answer := &gossipkey.Keyrings{NumNodes: 3}
	if op == gossipkey.List {
		answer.Keys = map[string]int{}
		answer.PrimaryKeys = map[string]int{}
		for i, k := range a.GossipKeys {
			answer.Keys[k] = 3
			if i == 0 {
				answer.PrimaryKeys[k] = 3
			}
		}
	}
	return answer, nil
}
