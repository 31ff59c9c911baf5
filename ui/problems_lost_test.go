package ui

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
)

// loseNode makes n1 a node that is down and has volumes, one claim for each. It returns the number of
// explanations that the page asks for.
func loseNode(
	t *testing.T, servers *apitest.Caller, devices []*cluster.FenceDevice, volumes ...string,
) *atomic.Int64 {
	t.Helper()
	apitest.Answer(servers, structs.NodeList, structs.NodeListResponse{
		Nodes: []*structs.NodeListStub{{ID: "n1", Name: "alpha", Status: structs.NodeDown}},
	})
	apitest.Answer(servers, cluster.NodeFenceStatus, cluster.NodeFenceStatusResponse{Devices: devices})
	var held []*structs.VolumeClaimStub
	for _, v := range volumes {
		held = append(held, &structs.VolumeClaimStub{Namespace: "team", VolumeID: v, AllocID: "a1", JobID: "web"})
	}
	apitest.On(servers, structs.VolumeClaimList, func(_ context.Context, q *structs.VolumeClaimListRequest) (
		*structs.VolumeClaimListResponse, error,
	) {
		if q.NodeID != "n1" || q.Filter != heldClaims || q.Namespace != structs.AllNamespaces {
			t.Errorf("asked for the claims %+v", q)
		}
		return &structs.VolumeClaimListResponse{Claims: held}, nil
	})
	asked := &atomic.Int64{}
	apitest.On(servers, structs.VolumeWhy, func(context.Context, *structs.CSIVolumeGetRequest) (
		*structs.WhyResponse, error,
	) {
		asked.Add(1)
		return &structs.WhyResponse{}, nil
	})
	return asked
}

// A volume of a lost node is a problem before anything waits in its queue.
func TestProblems_HaveTheVolumesOfLostNodes(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	asked := loseNode(t, servers, nil, "data", "data", "logs")
	_, body := get(t, h, "/ui/slow")
	wants(t, body, "<td>volume</td>", "allocation a1 of job web has it on node alpha, which is down",
		"if the machine is off: berth node confirm-lost -reason &#34;...&#34; n1",
		"berth volume why -namespace team data", "berth volume why -namespace team logs",
		"/ui/volume?id=data&amp;namespace=team")
	rows := strings.Count(body, "<td>volume</td>")
	if asked.Load() != 2 || rows != 2 || strings.Contains(body, "There are more") {
		t.Errorf("asked for %d explanations:\n%s", asked.Load(), body)
	}

	// The servers name no remedy, and there is a device.
	loseNode(t, servers, []*cluster.FenceDevice{{Scope: cluster.FencePower}}, "data")
	_, body = get(t, h, "/ui/slow")
	wants(t, body, "if the machine is off: berth node confirm-lost -reason &#34;...&#34; n1")
}

// The reasons and the remedies of the servers take the place of that of the page: the servers advise a fence
// with a device alone.
func TestProblems_ExplainTheVolumesOfLostNodes(t *testing.T) {
	const advice = "if the machine is off: confirm it; or fence it"
	h, servers := newPage(t)
	quietCluster(servers)
	loseNode(t, servers, nil, "data")
	apitest.Answer(servers, structs.VolumeWhy, structs.WhyResponse{Waits: true, Reasons: []*structs.Reason{{
		Text: "the claim of allocation a1 is held", Remedy: advice,
	}}})
	_, body := get(t, h, "/ui/slow")
	wants(t, body, "the claim of allocation a1 is held", advice, "berth volume why -namespace team data")
	if strings.Contains(body, "confirm-lost") {
		t.Errorf("the page has a remedy of its own:\n%s", body)
	}
}

// A volume that also waits, or is ill, has one row.
func TestProblems_HaveOneRowForAVolume(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	loseNode(t, servers, nil, "data")
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{
		Volumes: []*structs.CSIVolumeListStub{{
			ID: "data", Namespace: "team", State: structs.VolumeReady, Schedulable: true, Waiting: 2,
		}},
	})
	_, body := get(t, h, "/ui/slow")
	wants(t, body, "which is down", "2 claims in its queue", "confirm-lost")
	if strings.Count(body, "<td>volume</td>") != 1 {
		t.Errorf("the volume has several rows:\n%s", body)
	}
}

func TestProblems_HaveFewVolumesOfLostNodes(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	var many []string
	for i := range mostProblems + 5 {
		many = append(many, fmt.Sprint("v", i))
	}
	asked := loseNode(t, servers, nil, many...)
	_, body := get(t, h, "/ui/slow")
	wants(t, body, `<a href="/ui/nodes?show=unready">all volumes of lost nodes</a>`)
	if n := strings.Count(body, "<td>volume</td>"); n != mostProblems || asked.Load() != mostExplained {
		t.Errorf("%d rows and %d explanations", n, asked.Load())
	}
}

// A node that holds volumes and that no device fences needs the word of an operator.
func TestProblems_AdviseAFenceWithADeviceAlone(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	loseNode(t, servers, nil)
	apitest.Answer(servers, cluster.NodeFenceStatus, *lostNode())
	_, body := get(t, h, "/ui/")
	wants(t, body, "a fence releases them", "berth node fence -dry-run n1")

	without := lostNode()
	without.Devices = nil
	apitest.Answer(servers, cluster.NodeFenceStatus, *without)
	_, body = get(t, h, "/ui/")
	wants(t, body, "no fence device of the servers matches the node; if the machine is off",
		"berth node confirm-lost -reason &#34;...&#34; n1")
	if strings.Contains(body, "node fence") {
		t.Errorf("the page advises a fence:\n%s", body)
	}
}
