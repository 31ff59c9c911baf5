package endpoints

import (
	"testing"
	"time"

	"berth/rpc"
	"berth/structs"
)

// A server that leads no more may be cut off: those who wait at it for news are sent to the others, save
// those who are content with old ones.
func TestBlockingQuery_EndsWithLeadership(t *testing.T) {
	for _, stale := range []bool{false, true} {
		s := newServer(t)
		s.raft.deposed = make(chan struct{})
		s.addNode("n1", "a")
		asked := map[string]func(q structs.QueryOptions) error{
			"a list": func(q structs.QueryOptions) error {
				_, err := rpc.Call(t.Context(), s.rpc, structs.NodeList, &structs.QueryRequest{QueryOptions: q})
				return err
			},
			"a node": func(q structs.QueryOptions) error {
				_, err := rpc.Call(t.Context(), s.rpc, structs.NodeClientAllocs, &structs.NodeGetRequest{NodeID: "n1", SecretID: secretOf("n1"), QueryOptions: q})
				return err
			},
		}
		answers := map[string]chan error{}
		for who, ask := range asked {
			answer := make(chan error, 1)
			answers[who] = answer
			limit := time.Minute
			if stale {
				limit = 100 * time.Millisecond
			}
			go func() {
				answer <- ask(structs.QueryOptions{MinIndex: s.store.Index() + 1000, MaxWait: limit, AllowStale: stale})
			}()
		}
		close(s.raft.deposed)
		for who, answer := range answers {
			if err := <-answer; stale != (err == nil) || !stale && !structs.IsKind(err, structs.KindUnavailable) {
				t.Errorf("%s, stale %v: %v (%s)", who, stale, err, structs.KindOf(err))
			}
		}
	}
}
