package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
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

// manyRows returns the page of a cluster with n volumes, n allocations, n jobs and n/10 nodes. One volume in
// a hundred thousand waits, and one node is down, so a search for problems reads all rows.
func manyRows(b *testing.B, n int) http.Handler {
	b.Helper()
	store := state.New()
	err := store.Write(2, func(tx *state.WriteTx) error {
		for i := range n {
			v := benchshape.Volume(benchshape.VolumeID(i), i)
			v.State = structs.VolumeReady
			schema.Volumes.Put(tx, v)
			job := benchshape.Job(1)
			job.ID = fmt.Sprintf("job-%06d", i)
			schema.Jobs.Put(tx, job)
			a := benchshape.Alloc(i, n/10)
			a.JobID = job.ID
			schema.Allocs.Put(tx, a)
		}
		for i := range n / 10 {
			node := benchshape.Node(i)
			node.Status = structs.NodeReady
			schema.Nodes.Put(tx, node)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}

	logger := hclog.NewNullLogger()
	s := rpc.NewServer(logger, endpoints.New(core.Deps{
		Store:  store,
		Raft:   leader{},
		Logger: logger,
		Level:  func() int { return level.Now },
	}).List()...)
	b.Cleanup(s.Close)
	agent := &apitest.Agent{SelfIs: &api.AgentSelf{}}
	h := api.NewHandler(api.Config{Caller: s, Agent: agent, Logger: logger})
	return NewHandler(Config{API: h, Agent: "agent-1", Logger: logger})
}

// BenchmarkFirstPaint draws views of a cluster with 100,000 volumes, jobs and allocations. The target is one
// second for each view, with the time of the browser.
func BenchmarkFirstPaint(b *testing.B) {
	h := manyRows(b, 100000)
	for _, path := range []string{
		"/ui/", "/ui/slow", "/ui/volumes", "/ui/jobs", "/ui/allocations", "/ui/nodes", "/ui/topology",
		"/ui/volumes?show=waiting", "/ui/volumes?order=modify-reverse", "/ui/allocations?search=job-099999",
	} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
				if w.Code != http.StatusOK {
					b.Fatalf("got %d: %s", w.Code, w.Body)
				}
				b.ReportMetric(float64(w.Body.Len()), "page-bytes")
			}
		})
	}
}
