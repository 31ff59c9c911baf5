package workqueue_test

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backoff"
	"berth/server/control/workqueue"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// The runner brings back each node that is down. A node that comes down while it runs is a change of its row.
func Example() {
	store := state.New()
	index := uint64(0)
	write := func(apply func(tx *state.WriteTx) error) error {
		index++
		return store.Write(index, apply)
	}
	setStatus := func(id, status string) error {
		return write(func(tx *state.WriteTx) error {
			return state.NodeStatus(tx, &structs.NodeStatusUpdate{NodeIDs: []string{id}, Status: status})
		})
	}
	for _, id := range []string{"a", "b"} {
		_ = write(func(tx *state.WriteTx) error {
			return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: &structs.Node{ID: id, SecretID: id}})
		})
	}
	_ = setStatus("a", structs.NodeReady)
	_ = setStatus("b", structs.NodeDown)

	ctx, stop := context.WithCancel(context.Background())
	workqueue.Runner{
		Name:     "example",
		Logger:   hclog.NewNullLogger(),
		Store:    store,
		Retry:    backoff.Backoff{Min: time.Second, Max: time.Minute},
		Parallel: workqueue.Always(1),
		Topics:   []state.Topic{schema.NodeRows},
		All: func(tx *state.ReadTx) iter.Seq[workqueue.Key] {
			return func(yield func(workqueue.Key) bool) {
				for n := range state.DownNodes(tx) {
					if !yield(workqueue.Key{Topic: schema.NodeRows, Key: [3]string{n.ID}}) {
						return
					}
				}
			}
		},
		Keys: func(_ *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
			return func(yield func(workqueue.Key) bool) { yield(c) }
		},
		Read: func(tx *state.ReadTx, key workqueue.Key) workqueue.Step {
			n := state.Node(tx, key.Key[0])
			if n == nil || n.Status != structs.NodeDown {
				return workqueue.Step{}
			}
			act := func(context.Context) error {
				fmt.Println("bringing back node", n.ID)
				err := setStatus(n.ID, structs.NodeReady)
				if n.ID == "b" {
					return setStatus("a", structs.NodeDown)
				}
				stop()
				return err
			}
			return workqueue.Step{Op: "bring back", Version: n.ModifyIndex, Act: act}
		},
	}.Run(ctx)
	// Output:
	// bringing back node b
	// bringing back node a
}
