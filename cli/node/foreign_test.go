package node_test

import (
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs/cluster"
)

// The servers have lost their state. An operator must see which machines wait, and what to do.
func TestNodeStatus_ShowsTheNodesOfAnotherCluster(t *testing.T) {
	w := clitest.NewCluster(t.TempDir())
	addr := clitest.Serve(t, w.Caller, w.Agent)
	code, out, errs := runLine(t, "node status -address "+addr)
	if code != 0 || strings.Contains(out, "another cluster") {
		t.Errorf("without such a node: got exit code %d: %s\n%s", code, errs, out)
	}

	apitest.Answer(w.Caller, cluster.NodeForeignList, cluster.NodeForeignListResponse{
		Nodes: []*cluster.ForeignNode{{
			ID:        "99999999-1111-2222-3333-444444444444",
			Name:      "old",
			HTTPAddr:  "10.0.0.9:4646",
			ClusterID: "cccccccc-1111-2222-3333-444444444444",
			Allocs:    5,
			Volumes:   3,
			Asked:     time.Now().UnixNano(),
			Reason:    "the node belongs to another cluster",
		}},
	})
	code, out, errs = runLine(t, "node status -address "+addr)
	if code != 0 {
		t.Fatalf("got exit code %d: %s", code, errs)
	}
	clitest.CheckLines(t, out,
		"Nodes of another cluster, which are rejected",
		"99999999  old   10.0.0.9:4646  cccccccc  5            3        ",
		"berth operator snapshot restore",
		"remove the file cluster-id")
	code, out, _ = runLine(t, "node status -json -address "+addr)
	if code != 0 || strings.Contains(out, "cluster-id") {
		t.Errorf("the JSON is not the list of the nodes: exit code %d\n%s", code, out)
	}
}
