package cluster_test

import (
	"testing"
	"time"

	"berth/server"
	"berth/structs"
	"berth/test/cluster"
)

// A leader sends heartbeats, and their answers are delayed until another server was elected. They do not show
// that it still leads. It would answer reads from an old state, and grant leases of which its successor does
// not know.
func TestVerifyLeader_CountsNoAnswerToAnEarlierHeartbeat(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, likeAgents)
	for range 20 {
		old := c.Leader()
		others := c.Others(old)
		for _, o := range others {
			c.Net.CutOneWay(o.Name, old.Name)
		}
		c.Await("answers to heartbeats are on the way", func() bool {
			return c.Net.Holds(others[0].Name, old.Name) && c.Net.Holds(others[1].Name, old.Name)
		})
		c.Elect(others[0])
		c.Leader(others...)
		leads := old.Leads()
		verified := make(chan error, 1)
		go func() { verified <- old.Current().VerifyLeader() }()
		// The check has probably begun after that. One that begins later must fail too.
		time.Sleep(20 * time.Millisecond)
		c.Net.HealOneWay(others[1].Name, old.Name) // the late answers arrive, and nothing of the new leader
		err := <-verified
		if err == nil {
			t.Fatal("a server verified its leadership after another one was elected")
		}
		c.Net.Heal()
		c.Await("the former leader follows", func() bool {
			_, leads, known, _ := old.Current().Leader()
			return known && !leads
		})
		if leads {
			return
		}
	}
	t.Error("no server led until the answers to its heartbeats came")
}

// The first election does not wait for the timeout: with this one, New would give up before.
func TestNew_BeginsTheFirstElection(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, 3, func(cfg *server.Config) { cfg.RaftTimeout = 10 * cluster.Patience })
	cluster.Must(c, c.Leader(), structs.JobRegister, jobRequest("one"))
	c.CheckEqualStates()
}
