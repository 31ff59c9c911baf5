package cluster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/server"
	"berth/structs"
	rows "berth/structs/cluster"
	"berth/test/cluster"
)

// The state of one server is another one than that of the others, as after damage of its memory: it has a row
// that no entry of the log has made.
func TestDigest_NamesAServerWithAnotherState(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, rareElections, func(cfg *server.Config) { cfg.DigestEvery = 200 * time.Millisecond })
	awaitAllVote(t, c)
	leader := c.Leader()
	ofStates := func() (all []*rows.SettingDifference) {
		resp := cluster.Must(c, leader, rows.AutopilotHealth, &structs.QueryRequest{})
		for _, d := range resp.Differences {
			if d.OfState() {
				all = append(all, d)
			}
		}
		return all
	}
	write := func() { cluster.Must(c, leader, structs.JobRegister, jobRequest(structs.NewID())) }

	before := leader.Store().Index()
	c.Await("some digests are compared", func() bool {
		write()
		return leader.Store().Index() > before+30
	})
	if all := ofStates(); len(all) > 0 {
		t.Fatalf("the servers differ: %s", all[0])
	}

	odd := c.Others(leader)[0]
	entry, err := fsm.NodeRegister.Encode(&structs.NodeRegisterRequest{
		Node: &structs.Node{ID: structs.NewID(), SecretID: structs.NewID()},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := fsm.New(odd.Store()).Apply(&raft.Log{
		Type:  raft.LogCommand,
		Index: odd.Store().Index(),
		Data:  entry,
	})
	if err, failed := answer.(error); failed {
		t.Fatal(err)
	}
	c.Await("the server is named", func() bool {
		write()
		for _, d := range ofStates() {
			values := map[string]int{}
			own := ""
			for _, s := range d.Servers {
				values[s.Value]++
				if strings.HasPrefix(s.Server, odd.Name+".") {
					own = s.Value
				}
			}
			if own != "" && len(d.Servers) == 3 && values[own] == 1 {
				return true
			}
		}
		return false
	})
}
