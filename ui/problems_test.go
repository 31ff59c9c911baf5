package ui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// quietCluster answers all reads of the first view with no rows.
func quietCluster(servers *apitest.Caller) {
	apitest.Answer(servers, structs.NodeList, structs.NodeListResponse{})
	apitest.Answer(servers, structs.CSIPluginList, structs.CSIPluginListResponse{})
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{})
	apitest.Answer(servers, structs.VolumeClaimList, structs.VolumeClaimListResponse{})
	apitest.Answer(servers, structs.EvalList, structs.EvalListResponse{})
	apitest.Answer(servers, structs.DeploymentList, structs.DeploymentListResponse{})
	apitest.Answer(servers, structs.AllocList, structs.AllocListResponse{})
	apitest.Answer(servers, storage.UsageList, storage.VolumeUsageResponse{})
	apitest.Answer(servers, cluster.AutopilotHealth, cluster.AutopilotHealthResponse{})
}

func TestProblems_SaysThatNothingIsWrong(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	resp, body := get(t, h, "/ui/")
	wants(t, body, "Nothing is wrong", `hx-get="/ui/slow?namespace=%2A"`,
		`<a href="/ui/" aria-current="page">What is wrong now</a>`)
	if resp.StatusCode != http.StatusOK || strings.Contains(body, "Not known") {
		t.Errorf("got %d:\n%s", resp.StatusCode, body)
	}
}

func TestProblems_HaveTheirReasonAndTheCommand(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	apitest.Answer(servers, structs.NodeList, structs.NodeListResponse{
		Nodes: []*structs.NodeListStub{{ID: "0a1b2c3d-node", Name: "n1", Status: structs.NodeDown}},
	})
	apitest.Answer(servers, cluster.NodeFenceStatus, cluster.NodeFenceStatusResponse{
		Claims:  []*cluster.LostClaim{{}, {}},
		Devices: []*cluster.FenceDevice{{Scope: cluster.FencePower}},
		Runs:    []*cluster.FenceRun{{State: cluster.FenceFailed, Reason: "the board does not answer"}},
	})
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{
		Volumes: []*structs.CSIVolumeListStub{{ID: "data", Namespace: "team", State: "ready", Waiting: 2}},
	})
	apitest.On(servers, structs.VolumeWhy, func(_ context.Context, q *structs.CSIVolumeGetRequest) (
		*structs.WhyResponse, error,
	) {
		if q.ID != "data" || q.Namespace != "team" {
			t.Errorf("asked why %s of %s waits", q.ID, q.Namespace)
		}
		return &structs.WhyResponse{Waits: true, Reasons: []*structs.Reason{{
			Text: "allocation a1 waits",
			Because: []*structs.Reason{{
				Text:   "node n1 is down and holds the volume",
				Remedy: "berth node confirm-lost n1",
			}},
		}}}, nil
	})
	apitest.Answer(servers, structs.CSIPluginList, structs.CSIPluginListResponse{
		Plugins: []*structs.CSIPluginListStub{
			{ID: "well", NodesHealthy: 2, NodesExpected: 2},
			{ID: "ill", NodesHealthy: 1, NodesExpected: 2},
			{ID: "ends", NodesHealthy: 2, NodesExpected: 2, Ending: 1},
		},
	})
	apitest.Answer(servers, structs.DeploymentList, structs.DeploymentListResponse{
		Deployments: []*structs.Deployment{
			{ID: "d3", JobID: "mended", Status: structs.DeploymentSuccessful},
			{ID: "d2", JobID: "web", Status: structs.DeploymentFailed, StatusDescription: "Failed due to a test"},
			{ID: "d1", JobID: "mended", Status: structs.DeploymentFailed},
		},
	})

	_, body := get(t, h, "/ui/")
	_, slow := get(t, h, "/ui/slow", fromScript, "true")
	body += slow
	wants(t, body,
		"it is down", "it holds 2 claims on volumes", "the board does not answer",
		"berth node fence -dry-run 0a1b2c3d-node",
		"allocation a1 waits", "node n1 is down and holds the volume", "berth node confirm-lost n1",
		"/ui/volume?id=data&amp;namespace=team",
		"nodes healthy: 1/2", "berth plugin status ill",
		"instances that ended twice at a call, and do not make it any more: 1", "berth plugin status ends",
		"Failed due to a test", "berth deployment status d2",
	)
	if strings.Contains(body, "mended") || strings.Contains(body, "well") {
		t.Errorf("the page has problems that there are not:\n%s", body)
	}
}

// The other kinds are shown if one cannot be read.
func TestProblems_NamesTheKindsThatItCannotRead(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	apitest.Fail(servers, structs.NodeList, structs.Deniedf("the token may not read nodes"))
	resp, body := get(t, h, "/ui/")
	wants(t, body, "Not known: nodes: the token may not read nodes")
	if resp.StatusCode != http.StatusOK || strings.Contains(body, "Nothing is wrong") {
		t.Errorf("got %d:\n%s", resp.StatusCode, body)
	}
}

func TestProblems_NamesASettingThatTheServersDoNotHaveAlike(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	apitest.Answer(servers, cluster.AutopilotHealth, cluster.AutopilotHealthResponse{
		Differences: []*cluster.SettingDifference{{
			Setting: "tls.mode",
			Servers: []cluster.ServerSetting{{Server: "s1", Value: "require"}, {Server: "s2", Value: "prefer"}},
		}},
	})
	_, body := get(t, h, "/ui/")
	wants(t, body, "the servers differ in tls.mode: require on s1, prefer on s2", "berth operator autopilot health")
}

// A search that hides what is denied would keep the page from asking for a login.
func TestProblems_SaysThatDifferencesAreDenied(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	apitest.Fail(servers, cluster.AutopilotHealth, structs.Deniedf("this needs operator: read"))
	_, body := get(t, h, "/ui/")
	wants(t, body, "Not known: differences between servers: this needs operator: read")
}

func TestProblems_ReadsFewRows(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	servers.Take()
	get(t, h, "/ui/")
	get(t, h, "/ui/slow")
	bounded := []string{storage.UsageList.Name, cluster.AutopilotHealth.Name} // by what they are about
	for _, c := range servers.Take() {
		q, ok := c.Request.(interface{ Query() *structs.QueryOptions })
		if ok && !slices.Contains(bounded, c.Method) && (q.Query().PerPage < 1 || q.Query().PerPage > maxPerPage) {
			t.Errorf("%s reads %d rows", c.Method, q.Query().PerPage)
		}
	}
}

func TestProblems_ExplainsSomeOnly(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	var all []*structs.CSIVolumeListStub
	for range mostProblems {
		all = append(all, &structs.CSIVolumeListStub{ID: "v", State: structs.VolumeFailed})
	}
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{Volumes: all})
	asked := 0
	apitest.On(servers, structs.VolumeWhy, func(context.Context, *structs.CSIVolumeGetRequest) (
		*structs.WhyResponse, error,
	) {
		asked++
		return &structs.WhyResponse{}, nil
	})
	get(t, h, "/ui/slow")
	if asked != mostExplained {
		t.Errorf("asked %d times, want %d", asked, mostExplained)
	}
}

// The uses of many volumes are not read for a page.
func TestProblems_AsksForFewUsesAlone(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{
		QueryMeta: structs.QueryMeta{NextToken: "x"},
	})
	_, body := get(t, h, "/ui/slow")
	wants(t, body, "there are more than 500 volumes", "berth volume list -sort usage")
	for _, c := range servers.Take() {
		if c.Method == storage.UsageList.Name {
			t.Error("the page asks for all uses")
		}
	}
}

// A cluster may have hundreds of plugins that are not healthy: the view shows some, and where the others are.
func TestProblems_ShowsSomePluginsOnly(t *testing.T) {
	h, servers := newPage(t)
	quietCluster(servers)
	var all []*structs.CSIPluginListStub
	for range mostProblems + 1 {
		all = append(all, &structs.CSIPluginListStub{ID: "ill", NodesExpected: 1})
	}
	apitest.Answer(servers, structs.CSIPluginList, structs.CSIPluginListResponse{Plugins: all})
	_, body := get(t, h, "/ui/")
	if n := strings.Count(body, "nodes healthy: 0/1"); n != mostProblems {
		t.Errorf("the view shows %d plugins, want %d", n, mostProblems)
	}
	wants(t, body, `<a href="/ui/plugins">all plugins</a>`)
}
