package cluster_test

import (
	"testing"

	"berth/structs"
	"berth/test/cluster"
)

func TestMain(m *testing.M) {
	cluster.Main(m)
}

func aJob(id string) *structs.JobRegisterRequest {
	return &structs.JobRegisterRequest{Job: &structs.Job{ID: id, Type: structs.JobService, Datacenters: []string{"dc1"},
		TaskGroups: []*structs.TaskGroup{{Name: "g", Count: 1, Tasks: []*structs.Task{{Name: "t", Driver: "exec",
			Config: map[string]any{"command": "true"}}}}}}}
}

func TestThreeServersFormOneCluster(t *testing.T) {
	c := cluster.New(t, 3)
	leader := c.Leader()
	servers := cluster.Must(c, leader, structs.OperatorRaft, &structs.QueryRequest{}).Servers
	if len(servers) != 3 {
		t.Fatalf("%d servers in the configuration: %+v", len(servers), servers)
	}
	cluster.Must(c, c.Others(leader)[0], structs.JobRegister, aJob("j"))
	c.Alike()
}
