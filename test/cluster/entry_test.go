package cluster_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/areas"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// TestServers_SurviveAJobThatFitsNowhere: it has many groups, and many datacenters without nodes. Its plan is
// a log entry with the reasons for each group.
func TestServers_SurviveAJobThatFitsNowhere(t *testing.T) {
	t.Parallel()
	const groups = 200
	c := cluster.New(t, 3, rareElections) // its entries are large
	leader := c.Leader()
	c.AddNode("n1", cluster.NewStorage(c))
	c.AwaitRows(leader, "the node is ready", func(tx *state.ReadTx) bool {
		for n := range state.Nodes(tx) {
			return n.Ready()
		}
		return false
	})
	req := jobRequest("wordy")
	req.Job.Datacenters = nil
	for i := range structs.MaxListed {
		name := fmt.Sprintf("dcx%04d%s", i, strings.Repeat("y", 240))
		req.Job.Datacenters = append(req.Job.Datacenters, name)
	}
	group := *req.Job.TaskGroups[0]
	req.Job.TaskGroups = nil
	for i := range groups {
		g := group
		g.Name = fmt.Sprint("g", i)
		req.Job.TaskGroups = append(req.Job.TaskGroups, &g)
	}
	body, err := json.Marshal(map[string]any{"Job": req.Job})
	if err != nil {
		t.Fatal(err)
	}
	handler := api.NewHandler(api.Config{
		Routes: areas.Routes(),
		Caller: leader.Current(),
		Logger: hclog.NewNullLogger(),
	})
	answer := httptest.NewRecorder()
	put := httptest.NewRequest(http.MethodPut, "http://127.0.0.1/v1/jobs", bytes.NewReader(body))
	handler.ServeHTTP(answer, put)
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %.300s", answer.Code, answer.Body)
	}
	waits := func(s *cluster.Server) {
		c.AwaitRows(s, "the job waits with a reason for each group", func(tx *state.ReadTx) bool {
			b := state.BlockedEval(tx, structs.DefaultNamespace, "wordy")
			return b != nil && len(b.FailedTGAllocs) == groups
		})
	}
	waits(leader)
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Elect(c.Others(leader)[0])
	c.Restart(leader)
	waits(c.Leader())
	c.AtLeader("another job is registered", func(s *cluster.Server) error {
		_, err := rpc.Call(t.Context(), s.Current(), structs.JobRegister, jobRequest("small"))
		return err
	})
	c.CheckEqualStates()
}
