package job_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/rpc"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// offer reports that an allocation runs and offers the services with these names.
func offer(s *endpointstest.Server, node, alloc string, names ...string) {
	s.T.Helper()
	var instances []*structs.ServiceInstance
	for _, name := range names {
		instances = append(instances, anOffer(alloc, name))
	}
	endpointstest.Must(s, structs.NodeUpdateAllocs, offers(node, alloc, instances...))
}

func offers(node, alloc string, instances ...*structs.ServiceInstance) *structs.AllocsClientUpdateRequest {
	return &structs.AllocsClientUpdateRequest{
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
		Allocs: []*structs.AllocClientUpdate{{
			ID:           alloc,
			ClientStatus: structs.AllocRunning,
			Services:     instances,
		}},
	}
}

func anOffer(alloc, name string) *structs.ServiceInstance {
	return &structs.ServiceInstance{
		ID:          alloc + "-" + name,
		ServiceName: name,
		Tags:        []string{"of-" + alloc},
		Address:     "10.0.0.1",
		Port:        80,
	}
}

// addAllocIn places an allocation of a job of its own in a namespace.
func addAllocIn(s *endpointstest.Server, ns, id, node string) {
	s.T.Helper()
	if ns != structs.DefaultNamespace {
		endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{
			Definition: &cluster.Namespace{Name: ns},
		})
	}
	job := endpointstest.Job("job-" + id)
	job.Namespace = ns
	job.TaskGroups[0].Volumes = nil
	endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), ns, job.ID)
	e := endpointstest.EvalOf(stored, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: stored.JobModifyIndex,
		Place: []*structs.Allocation{{
			ID:        id,
			Namespace: ns,
			JobID:     job.ID,
			TaskGroup: "g",
			Name:      structs.AllocName(job.ID, "g", 0),
			NodeID:    node,
		}},
	})
}

// withServices returns a server with a service web of a1 to a4, of which a4 is in another namespace, and
// services that a1 offers alone.
func withServices(t *testing.T) *endpointstest.Server {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	for _, id := range []string{"a1", "a2", "a3"} {
		s.AddAlloc(id, "n1")
	}
	addAllocIn(s, "other", "a4", "n1")
	offer(s, "n1", "a1", "web", "api", "web-admin")
	for _, id := range []string{"a2", "a3", "a4"} {
		offer(s, "n1", id, "web")
	}
	return s
}

// list returns each service as namespace/name: instances, passing ones, tags.
func listServices(s *endpointstest.Server, q structs.QueryOptions) (all []string) {
	s.T.Helper()
	for _, space := range endpointstest.Must(s, structs.ServiceList,
		&structs.QueryRequest{QueryOptions: q}).Services {
		for _, stub := range space.Services {
			all = append(all, fmt.Sprintf("%s/%s: %d %d %v",
				space.Namespace, stub.ServiceName, stub.Instances, stub.Passing, stub.Tags))
		}
	}
	return all
}

func instances(s *endpointstest.Server, req structs.ServiceGetRequest) (ids []string) {
	s.T.Helper()
	for _, r := range endpointstest.Must(s, structs.ServiceGet, &req).Services {
		ids = append(ids, r.ID)
	}
	return ids
}

func TestServices_Listed(t *testing.T) {
	s := withServices(t)
	failing := anOffer("a3", "web")
	failing.Status = structs.CheckFailing
	endpointstest.Must(s, structs.NodeUpdateAllocs, offers("n1", "a3", failing))
	web := "default/web: 3 2 [of-a1 of-a2 of-a3]"
	admin := "default/web-admin: 1 1 [of-a1]"
	other := "other/web: 1 1 [of-a4]"
	for name, c := range map[string]struct {
		query structs.QueryOptions
		want  []string
	}{
		"default": {structs.QueryOptions{}, []string{"default/api: 1 1 [of-a1]", web, admin}},
		"prefix":  {structs.QueryOptions{Prefix: "web"}, []string{web, admin}},
		"all":     {structs.QueryOptions{Namespace: "*", Prefix: "web"}, []string{web, admin, other}},
		"other":   {structs.QueryOptions{Namespace: "other"}, []string{other}},
		"none":    {structs.QueryOptions{Namespace: "none"}, nil},
		"page":    {structs.QueryOptions{Namespace: "*", PerPage: 1, Reverse: true}, []string{other}},
		"filter":  {structs.QueryOptions{Namespace: "*", Filter: `Namespace == "other"`}, []string{other}},
	} {
		if got := listServices(s, c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestServices_Found(t *testing.T) {
	s := withServices(t)
	for name, c := range map[string]struct {
		req  structs.ServiceGetRequest
		want string
	}{
		"all of the namespace": {structs.ServiceGetRequest{}, "a1-web a2-web a3-web"},
		"of all namespaces": {
			structs.ServiceGetRequest{QueryOptions: structs.QueryOptions{Namespace: "*"}},
			"a1-web a2-web a3-web a4-web",
		},
		"none": {structs.ServiceGetRequest{QueryOptions: structs.QueryOptions{Namespace: "none"}}, ""},
		"a filter": {
			structs.ServiceGetRequest{QueryOptions: structs.QueryOptions{Filter: `"of-a2" in Tags`}}, "a2-web",
		},
		"in reverse": {
			structs.ServiceGetRequest{QueryOptions: structs.QueryOptions{Reverse: true, PerPage: 2}}, "a3-web a2-web",
		},
		"more than there are": {structs.ServiceGetRequest{Choose: "9|key"}, "a1-web a2-web a3-web"},
		"chosen from the filtered": {
			structs.ServiceGetRequest{Choose: "2|key", QueryOptions: structs.QueryOptions{Filter: `AllocID != "a1"`}},
			"a2-web a3-web",
		},
	} {
		c.req.ServiceName = "web"
		if got := strings.Join(instances(s, c.req), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	page := endpointstest.Must(s, structs.ServiceGet, &structs.ServiceGetRequest{
		ServiceName:  "web",
		QueryOptions: structs.QueryOptions{PerPage: 2},
	})
	next := structs.ServiceGetRequest{
		ServiceName:  "web",
		QueryOptions: structs.QueryOptions{PerPage: 2, NextToken: page.NextToken},
	}
	if got := instances(s, next); len(page.Services) != 2 || !slices.Equal(got, []string{"a3-web"}) {
		t.Errorf("pages of %d and %v", len(page.Services), got)
	}
	got := page.Services[0]
	want := anOffer("a1", "web").Registration(state.Alloc(s.Store.Read(), "a1"), "dc1")
	if got.CreateIndex == 0 || got.Namespace != want.Namespace || got.NodeID != "n1" || got.JobID != "job-a1" ||
		got.AllocID != "a1" || got.Port != 80 || got.Address != "10.0.0.1" ||
		got.Datacenter != state.Node(s.Store.Read(), "n1").Datacenter {
		t.Errorf("got %+v", got)
	}
}

// The same key chooses the same instances, and another instance changes the choice for few keys.
func TestServices_ChosenByKey(t *testing.T) {
	s := withServices(t)
	choice := func(key string) string {
		ids := instances(s, structs.ServiceGetRequest{ServiceName: "web", Choose: "1|" + key})
		if len(ids) != 1 {
			t.Fatalf("%s: got %v", key, ids)
		}
		return ids[0]
	}
	before := map[string]string{}
	for i := range 60 {
		key := fmt.Sprint("key", i)
		before[key] = choice(key)
	}
	s.EndAlloc("a3", "n1")
	chosen := map[string]bool{}
	for key, id := range before {
		chosen[id] = true
		if now := choice(key); id != "a3-web" && now != id {
			t.Errorf("%s: got %s, before the end of a3 it was %s", key, now, id)
		}
	}
	if len(chosen) != 3 {
		t.Errorf("60 keys choose only %v", chosen)
	}
	for _, bad := range []string{"x", "0|k", "-1|k", "1|", "|k", "9999999999999999999|k"} {
		err := endpointstest.Rejected(s, structs.KindInvalid, structs.ServiceGet,
			&structs.ServiceGetRequest{ServiceName: "web", Choose: bad})
		endpointstest.WantText(t, err, "expected N|KEY")
	}
	endpointstest.Rejected(s, structs.KindInvalid, structs.ServiceGet, &structs.ServiceGetRequest{
		ServiceName:  "web",
		Choose:       "1|k",
		QueryOptions: structs.QueryOptions{Filter: "ID =="},
	})
}

func TestServices_OfAnAllocationAndOfAJob(t *testing.T) {
	s := withServices(t)
	ofAlloc := endpointstest.Must(s, structs.AllocOffers, &structs.AllocGetRequest{AllocID: "a1"}).Services
	ofJob := endpointstest.Must(s, structs.JobOffers, &structs.JobGetRequest{JobID: "job-a1"}).Services
	for _, got := range [][]*structs.ServiceRegistration{ofAlloc, ofJob} {
		var ids []string
		for _, r := range got {
			ids = append(ids, r.ID)
		}
		if !slices.Equal(ids, []string{"a1-api", "a1-web", "a1-web-admin"}) {
			t.Errorf("got %v", ids)
		}
	}
	endpointstest.Rejected(s, structs.KindNotFound, structs.AllocOffers,
		&structs.AllocGetRequest{AllocID: "none"})
	endpointstest.Rejected(s, structs.KindNotFound, structs.JobOffers, &structs.JobGetRequest{JobID: "none"})
	s.EndAlloc("a1", "n1")
	if got := endpointstest.Must(s, structs.AllocOffers,
		&structs.AllocGetRequest{AllocID: "a1"}).Services; len(got) != 0 {
		t.Errorf("an ended allocation offers %v", got)
	}
	if got := endpointstest.Must(s, structs.JobOffers,
		&structs.JobGetRequest{JobID: "job-a1"}).Services; len(got) != 0 {
		t.Errorf("its job offers %v", got)
	}
}

// A reader of a service waits for its next change.
func TestServiceGet_WaitsForAChange(t *testing.T) {
	s := withServices(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req := &structs.ServiceGetRequest{ServiceName: "web"}
	index := endpointstest.Must(s, structs.ServiceGet, req).Index
	got := make(chan *structs.ServiceGetResponse, 1)
	go func() {
		waiting := *req
		waiting.MinIndex = index
		waiting.MaxWait = time.Minute
		resp, _ := rpc.Call(ctx, s.RPC, structs.ServiceGet, &waiting)
		got <- resp
	}()
	s.EndAlloc("a2", "n1")
	resp := <-got
	if resp == nil || len(resp.Services) != 2 || resp.Index <= index {
		t.Errorf("after the end of an instance at %d: got %+v", index, resp)
	}
}

func TestNodeUpdateAllocs_RejectsBadServices(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	s.AddAlloc("a2", "n1")
	for want, instances := range map[string][]*structs.ServiceInstance{
		`allocation "a1": a service is null`:               {nil},
		`service "a b": the name is not that of a service`: {anOffer("a1", "a b")},
		`the ID "a1-web" is there twice`:                   {anOffer("a1", "web"), anOffer("a1", "web")},
		`65 services; at most 64`:                          make([]*structs.ServiceInstance, 65),
	} {
		before := s.Raft.Len()
		report := offers("n1", "a1", instances...)
		endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, structs.NodeUpdateAllocs,
			report), want)
		if n := s.Raft.Len() - before; n != 0 {
			t.Errorf("%s: %d log entries", want, n)
		}
	}
	mixed := offers("n1", "a1", nil)
	mixed.Allocs = append(mixed.Allocs, offers("n1", "a2", anOffer("a2", "web")).Allocs...)
	endpointstest.Rejected(s, structs.KindInvalid, structs.NodeUpdateAllocs, mixed)
	if got := instances(s, structs.ServiceGetRequest{ServiceName: "web"}); len(got) != 1 {
		t.Errorf("the good report is recorded as %v", got)
	}
}

func TestNodeUpdateAllocs_UnchangedServicesWriteNothing(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	changed := anOffer("a1", "web")
	changed.Status = structs.CheckFailing
	bare := anOffer("a1", "web")
	bare.Tags = nil
	empty := anOffer("a1", "web")
	empty.Tags = []string{}
	empty.Meta = map[string]string{}
	for i, c := range []struct {
		instance *structs.ServiceInstance
		entries  int
	}{
		{anOffer("a1", "web"), 1},
		{anOffer("a1", "web"), 0},
		{changed, 1},
		{changed, 0},
		{bare, 1},
		{empty, 0},
	} {
		before := s.Raft.Len()
		endpointstest.Must(s, structs.NodeUpdateAllocs, offers("n1", "a1", c.instance))
		if n := s.Raft.Len() - before; n != c.entries {
			t.Errorf("report %d: %d log entries, want %d", i, n, c.entries)
		}
	}
	before := s.Raft.Len()
	offer(s, "n1", "a1")
	if n := s.Raft.Len() - before; n != 1 || state.Alloc(s.Store.Read(), "a1").Services != nil {
		t.Errorf("a report without services: %d entries", n)
	}
}

// A new agent may make the network of a running allocation again.
func TestNodeUpdateAllocs_RecordsAChangedNetworkAlone(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddAlloc("a1", "n1")
	for i, c := range []struct {
		reported *structs.AllocNetworkStatus
		address  string
		entries  int
	}{
		{&structs.AllocNetworkStatus{Address: "172.26.64.2"}, "172.26.64.2", 1},
		{&structs.AllocNetworkStatus{Address: "172.26.64.2"}, "172.26.64.2", 0},
		{nil, "172.26.64.2", 0},
		{&structs.AllocNetworkStatus{Address: "172.26.64.3"}, "172.26.64.3", 1},
	} {
		before := s.Raft.Len()
		report := offers("n1", "a1")
		report.Allocs[0].NetworkStatus = c.reported
		endpointstest.Must(s, structs.NodeUpdateAllocs, report)
		got := state.Alloc(s.Store.Read(), "a1").NetworkStatus
		if n := s.Raft.Len() - before; n != c.entries || got == nil || got.Address != c.address {
			t.Errorf("report %d: %d log entries, want %d; the network is %+v", i, n, c.entries, got)
		}
	}
}
