package ui

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/api/apitest"
	"berth/cli/operator"
	"berth/structs"
	"berth/structs/cluster"
	"berth/ui/pages"
)

func TestLists_PassTheFormToTheServers(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.NodeList, structs.NodeListResponse{
		Nodes:     []*structs.NodeListStub{{ID: "n1", Name: "one", Status: structs.NodeReady}},
		QueryMeta: structs.QueryMeta{NextToken: "bjI"},
	})
	servers.Take()
	_, body := get(t, h, "/ui/nodes?search=o%22ne&show=draining&order=create-reverse&per_page=7&next_token=bjE&"+
		"filter=NodePool+%3D%3D+x")
	asked := servers.Take()
	q := asked[len(asked)-1].Request.(*structs.QueryRequest).QueryOptions
	filter := "((NodePool == x) and (ID contains `o\"ne` or Name contains `o\"ne`)) and (Drain == true)"
	if q.Filter != filter || q.Sort != structs.SortCreate || !q.Reverse || q.PerPage != 7 ||
		q.NextToken != "bjE" {
		t.Errorf("asked for %+v", q)
	}
	wants(t, body, `id="next-page" href="/ui/nodes?`, "next_token=bjI", "per_page=7", `id="first-page"`,
		`value="o&#34;ne"`, `<option value="draining" selected>`, `<option value="create-reverse" selected>`)
	if strings.Contains(body, `name="namespace"`) {
		t.Errorf("nodes have no namespace:\n%s", body)
	}
}

func TestLists_RejectAWrongForm(t *testing.T) {
	h, _ := newPage(t)
	for query, want := range map[string]string{
		"per_page=0":            "a number from 1 to 500",
		"per_page=501":          "a number from 1 to 500",
		"per_page=x":            "a number from 1 to 500",
		"show=none":             "a wrong choice",
		"order=none":            "a wrong choice",
		"search=a%5Cb":          "without backslashes",
		"search=%60a%22":        "one kind of quotes",
		"namespace=a&per_page=": "nothing answers",
	} {
		resp, body := get(t, h, "/ui/jobs?"+query)
		if resp.StatusCode < 400 || !strings.Contains(body, want) {
			t.Errorf("%s answers %d: %s", query, resp.StatusCode, body)
		}
	}
}

// The filters of the choices and of links are valid for the rows that they select from.
func TestLists_HaveFiltersOfTheirRows(t *testing.T) {
	check(t, volumeList.shows, &structs.CSIVolumeListStub{})
	check(t, jobList.shows, &structs.JobListStub{})
	check(t, allocList.shows, &structs.AllocListStub{})
	check(t, nodeList.shows, &structs.NodeListStub{})
	check(t, pluginList.shows, &structs.CSIPluginListStub{})
	matches(t, wrongVolumes, &structs.CSIVolumeListStub{})
	matches(t, wrongNodes, &structs.NodeListStub{})
	matches(t, lostNodes, &structs.NodeListStub{})
	matches(t, heldClaims, &structs.VolumeClaimStub{})
	matches(t, allocList.filterOf("NodeID", `a"b`), &structs.AllocListStub{})
	for _, name := range volumeList.names {
		matches(t, name+` contains "x"`, &structs.CSIVolumeListStub{})
	}
	for _, name := range allocList.names {
		matches(t, name+` contains "x"`, &structs.AllocListStub{})
	}
}

func check(t *testing.T, shows []pages.Choice, row any) {
	t.Helper()
	for _, c := range shows {
		matches(t, c.Filter, row)
	}
}

func TestJob_ShowsWhyItWaits(t *testing.T) {
	h, servers := newPage(t)
	job := &structs.Job{ID: "web", Type: "service"}
	apitest.Answer(servers, structs.JobGet, structs.JobGetResponse{Job: job})
	apitest.Answer(servers, structs.JobWhy, structs.WhyResponse{
		Waits:   true,
		Reasons: []*structs.Reason{{Text: "no node has the memory", Remedy: "add a node"}},
	})
	apitest.Answer(servers, structs.JobSummaryGet, structs.JobSummaryResponse{
		JobSummary: &structs.JobSummary{Summary: map[string]structs.TaskGroupSummary{"front": {Failed: 3}}},
	})
	apitest.Answer(servers, structs.JobDeployments, structs.DeploymentListResponse{})
	apitest.Answer(servers, structs.JobAllocations, structs.AllocListResponse{
		Allocations: []*structs.AllocListStub{{ID: "aaaaaaaa-1", ClientStatus: structs.AllocFailed}},
		QueryMeta:   structs.QueryMeta{NextToken: "x"},
	})
	resp, body := get(t, h, "/ui/job?id=web&namespace=team")
	wants(t, body, "no node has the memory", "add a node", "berth job why -namespace team web", "front",
		`<td class="bad">3</td>`, "aaaaaaaa", "There are more rows",
		"/ui/allocations?filter=JobID+%3D%3D+%22web%22&amp;namespace=team")
	if resp.StatusCode != http.StatusOK || strings.Contains(body, "Not known") {
		t.Errorf("got %d:\n%s", resp.StatusCode, body)
	}
}

func TestAllocation_ShowsItsTasksAndClaims(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.AllocGet, structs.AllocGetResponse{Alloc: &structs.Allocation{
		ID: "a1", Namespace: "team", Name: "web.front[0]",
		TaskStates: map[string]*structs.TaskState{"nginx": {
			State: "dead", Failed: true, Restarts: 2, StartedAt: time.Now(),
			Events: []*structs.TaskEvent{{Type: "Terminated", DisplayMessage: "exit code 3"}},
		}},
	}})
	apitest.On(servers, structs.VolumeClaimList, func(_ context.Context, q *structs.VolumeClaimListRequest) (
		*structs.VolumeClaimListResponse, error,
	) {
		if q.AllocID != "a1" || q.Namespace != "team" {
			t.Errorf("asked for the claims of %q in %q", q.AllocID, q.Namespace)
		}
		return &structs.VolumeClaimListResponse{Claims: []*structs.VolumeClaimStub{{
			VolumeID: "data", State: structs.ClaimWaiting, Position: 4,
			ClaimCause: structs.ClaimCause{CauseText: "another one writes"},
		}}}, nil
	})
	_, body := get(t, h, "/ui/allocation?id=a1")
	wants(t, body, "web.front[0]", "nginx", "dead, failed", "exit code 3", "data", "another one writes",
		"<td>4</td>", "berth alloc status -namespace team a1")
}

func TestNode_ShowsItsPluginsVolumesAndAllocations(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{
		Node: structs.Node{
			ID: "n1", Name: "one", Status: structs.NodeReady, Unaccounted: true,
			Drivers: map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}, "docker": {}},
			Events:  []*structs.NodeEvent{{Message: "older"}, {Message: "newer"}},
		},
		CSINodePlugins: map[string]*structs.CSIInfo{"disk": {HealthDescription: "no answer"}},
	}})
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{
		Volumes: []*structs.CSIVolumeListStub{{ID: "data"}},
	})
	apitest.Answer(servers, structs.AllocList, structs.AllocListResponse{})
	_, body := get(t, h, "/ui/node?id=n1")
	wants(t, body, "has not reported its volumes", "exec", "no answer", "unhealthy", "data",
		"berth node status n1")
	if strings.Contains(body, "docker") || strings.Index(body, "newer") > strings.Index(body, "older") {
		t.Errorf("got\n%s", body)
	}
}

func TestPlugin_ShowsItsInstances(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, structs.CSIPluginGet, structs.CSIPluginGetResponse{Plugin: &structs.CSIPlugin{
		ID:    "disk",
		Nodes: map[string]*structs.CSIInfo{"cccccccc-9": {Healthy: true}},
	}})
	apitest.Answer(servers, structs.CSIVolumeList, structs.CSIVolumeListResponse{})
	_, body := get(t, h, "/ui/plugin?id=disk")
	wants(t, body, "/ui/node?id=cccccccc-9", "healthy", "berth plugin status disk", "There are no volumes.")
}

func TestTopology_GroupsMachines(t *testing.T) {
	servers := &apitest.Caller{}
	agent := &apitest.Agent{
		SelfIs: &api.AgentSelf{},
		MembersAs: []*cluster.AgentMember{
			{Name: "s1", Status: "alive", Tags: map[string]string{"dc": "east", "rpc_addr": "10.0.0.1:4747"}},
			{Name: "s2", Status: "failed", Tags: map[string]string{"dc": "west", "rpc_addr": "10.0.0.2:4747"}},
		},
	}
	h := pageOf(servers, agent)
	apitest.Answer(servers, cluster.StatusLeader, cluster.StatusLeaderResponse{Leader: "10.0.0.1:4747"})
	apitest.Answer(servers, structs.NodeList, structs.NodeListResponse{Nodes: []*structs.NodeListStub{
		{ID: "3", Name: "c", Datacenter: "east", NodePool: "gpu", Status: structs.NodeDown},
		{ID: "1", Name: "b", Datacenter: "east", NodePool: "default", Status: structs.NodeReady,
			SchedulingEligibility: "ineligible"},
		{ID: "2", Name: "a", Datacenter: "east", NodePool: "default", Status: structs.NodeReady,
			SchedulingEligibility: structs.NodeEligible},
	}})
	_, body := get(t, h, "/ui/topology")
	var at []int
	for _, text := range []string{
		"Datacenter east", "s1", "alive, leads", "default: 2 of 2 nodes are ready", ">a<", ">b<",
		"ready, ineligible", "gpu: 0 of 1 nodes are ready", ">c<", "Datacenter west", "s2", "failed",
	} {
		wants(t, body, text)
		at = append(at, strings.Index(body, text))
	}
	for i := 1; i < len(at); i++ {
		if at[i] < at[i-1] {
			t.Errorf("the order is wrong: %v\n%s", at, body)
		}
	}
}

// Every view of the navigation has another title and answers.
func TestViews_HaveTitlesAndTopics(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range allViews() {
		if v.name == "" || seen[v.name] || v.serve == nil {
			t.Errorf("the view %+v", reflect.ValueOf(v.path))
		}
		seen[v.name] = true
	}
}

// The command berth ui makes addresses of views that the page has.
func TestViews_AreThoseOfTheCommand(t *testing.T) {
	paths := map[string]bool{}
	for _, v := range allViews() {
		paths[v.path] = true
	}
	names := operator.PageViews()
	for _, name := range names {
		if !paths[Root+name] {
			t.Errorf("the page has no view %s", name)
		}
	}
	if len(names) < 5 {
		t.Errorf("the command knows %v", names)
	}
}
