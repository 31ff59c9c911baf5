package apitest

import (
	"context"
	"slices"

	"berth/structs"
	"berth/structs/cluster"
)

// GossipKeyring changes GossipKeys, of which the first is the primary key, for three servers. It is denied
// with the socket of GossipDenied.
func (a *Agent) GossipKeyring(
	_ context.Context, op cluster.GossipKeyOperation, key string,
) (*cluster.GossipKeyrings, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.GossipDenied != "" {
		return nil, &structs.Error{Kind: structs.KindDenied, Text: "it needs the socket", Socket: a.GossipDenied}
	}
	at := slices.Index(a.GossipKeys, key)
	switch {
	case op == cluster.GossipKeyRemove && at == 0:
		return nil, structs.Preconditionf("it is the primary key of 3 of 3 servers")
	case op == cluster.GossipKeyUse && at < 0:
		return nil, structs.Preconditionf("0 of 3 servers have the key")
	case op == cluster.GossipKeyInstall && at < 0:
		a.GossipKeys = append(a.GossipKeys, key)
	case op == cluster.GossipKeyUse:
		a.GossipKeys = append([]string{key}, slices.Delete(a.GossipKeys, at, at+1)...)
	case op == cluster.GossipKeyRemove && at > 0:
		a.GossipKeys = slices.Delete(a.GossipKeys, at, at+1)
	}
	answer := &cluster.GossipKeyrings{NumNodes: 3}
	if op == cluster.GossipKeyList {
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
