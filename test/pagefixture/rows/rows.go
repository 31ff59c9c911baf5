// Package rows serves the API over a state with many rows, for tests of the page.
package rows

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/endpoints"
	"berth/endpoints/core"
	"berth/internal/benchshape"
	"berth/internal/level"
	"berth/rpc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// leader is a server that leads and has applied all entries. It answers reads alone.
type leader struct{ core.Raft }

func (leader) Leader() (string, bool, bool, time.Duration) { return "127.0.0.1:1", true, true, 0 }
func (leader) Leads(string) context.Context                { return context.Background() }
func (leader) VerifyLeader() error                         { return nil }
func (leader) Alone() bool                                 { return true }
func (leader) LostLeadership() <-chan struct{}             { return nil }

// NewAPI returns the API of a cluster with n volumes, n allocations, n jobs and n/10 nodes, at least one, and
// a function that ends it. No volume waits and no node is down, so a search for problems reads all rows.
func NewAPI(n int) (h http.Handler, end func(), err error) {
	store := state.New()
	nodes := max(n/10, 1)
	err = store.Write(2, func(tx *state.WriteTx) error {
		for i := range n {
			v := benchshape.Volume(benchshape.VolumeID(i), i)
			v.State = structs.VolumeReady
			schema.Volumes.Put(tx, v)
			job := benchshape.Job(1)
			job.ID = fmt.Sprintf("job-%06d", i)
			schema.Jobs.Put(tx, job)
			a := benchshape.Alloc(i, nodes)
			a.JobID = job.ID
			a.EvalID = "" // no page shows it, and the count of one evaluation would change with each row
			schema.Allocs.Put(tx, a)
		}
		for i := range nodes {
			node := benchshape.Node(i)
			node.Status = structs.NodeReady
			schema.Nodes.Put(tx, node)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}

	logger := hclog.NewNullLogger()
	s := rpc.NewServer(logger, endpoints.New(core.Deps{
		Store:  store,
		Raft:   leader{},
		Logger: logger,
		Level:  func() int { return level.Now },
	}).List()...)
	agent := &apitest.Agent{SelfIs: &api.AgentSelf{}}
	return api.NewHandler(api.Config{Caller: s, Agent: agent, Logger: logger}), s.Close, nil
}
