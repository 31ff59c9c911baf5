package ui

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/ui/actions"
	"berth/ui/pages"
)

// Each action has the words of its command and leads back to the thing. Nothing happens before the form is
// sent.
func TestActions_AreConfirmedWithTheWordsOfTheCommand(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, cluster.NodeFenceStatus, *lostNode())
	answerDetach(servers)
	reads := []string{cluster.NodeFenceStatus.Name, structs.CSIVolumeGet.Name, structs.NodeGet.Name}
	for _, a := range actions.All {
		to := offer(a.Name, actions.Target{Namespace: "team", ID: "thing-1", NodeID: "node-1", Created: 5}, "").To
		resp, body := get(t, h, to)
		wants(t, body, a.Command.Synopsis, `method="post" action="/ui/act"`, `value="thing-1"`, `value="team"`)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(a.Line(actions.Target{ID: "x"}), "berth ") ||
			!strings.Contains(body, a.Back+"?id=thing-1&amp;namespace=team") {
			t.Errorf("%s: %d\n%s", a.Name, resp.StatusCode, body)
		}
	}
	for _, call := range servers.Take() {
		if !slices.Contains(reads, call.Method) {
			t.Errorf("a confirmation calls the servers: %v", call)
		}
	}
}

// answerDetach makes the servers answer with a volume that an allocation of the node n1 has, which is down.
func answerDetach(servers *apitest.Caller) {
	apitest.Answer(servers, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{
		CSIVolume: structs.CSIVolume{ID: "data"},
		Claims:    []*structs.CSIClaim{{NodeID: "n1", AllocID: "alloc-1"}, {NodeID: "n2", AllocID: "alloc-2"}},
	}})
	apitest.Answer(servers, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{
		Node: structs.Node{
			ID: "n1", Name: "alpha", Status: structs.NodeDown, Epoch: 7, HTTPAddr: "10.0.0.1:4646", BootID: "b1",
		},
		SecondAgent: &structs.SecondAgent{HTTPAddr: "10.0.0.2:4646", BootID: "b2"},
	}})
}

// An operator who confirms the loss of a node, or takes a volume from it, learns which machine it was. A
// second agent may be a copy of it.
func TestActions_NameTheMachineThatIsLost(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, cluster.NodeFenceStatus, *lostNode())
	answerDetach(servers)
	for name, must := range map[string]string{"confirm-lost": "be off", "force-detach": "write no more"} {
		_, body := get(t, h, offer(name, actions.Target{ID: "n1", NodeID: "n1", Created: 5}, "").To)
		wants(t, body, "It ran on 10.0.0.1:4646, in boot b1: that machine must "+must+".",
			"A second agent on 10.0.0.2:4646, in boot b2, waits for its volumes.")
	}
}

// A form acts on the row that its view has shown, and on no other with the same name. It takes a volume by
// force only from the allocations that were shown.
func TestActions_NameTheRowThatWasShown(t *testing.T) {
	h, servers := newPage(t)
	answerDetach(servers)
	created := map[string]uint64{}
	var detach *structs.CSIVolumeDetachRequest
	apitest.On(servers, structs.JobDeregister, func(_ context.Context, q *structs.JobDeregisterRequest) (
		*structs.JobDeregisterResponse, error,
	) {
		created["stop-job"] = q.Created
		return &structs.JobDeregisterResponse{}, nil
	})
	apitest.On(servers, structs.CSIVolumeDelete, func(_ context.Context, q *structs.CSIVolumeDeleteRequest) (
		*structs.Empty, error,
	) {
		created["delete"] = q.Created
		return &structs.Empty{}, nil
	})
	apitest.On(servers, structs.NodeDeregister, func(_ context.Context, q *structs.NodeDeregisterRequest) (
		*structs.Empty, error,
	) {
		created["purge"] = q.Created
		return &structs.Empty{}, nil
	})
	apitest.On(servers, structs.CSIVolumeDetach, func(_ context.Context, q *structs.CSIVolumeDetachRequest) (
		*structs.CSIVolumeDetachResponse, error,
	) {
		created["force-detach"] = q.Created
		detach = q
		return &structs.CSIVolumeDetachResponse{}, nil
	})

	for _, a := range actions.All {
		if !a.Destroys {
			continue
		}
		form := url.Values{"do": {a.Name}, "id": {"thing"}, "node": {"n1"}, "words": {"I saw it"},
			"epoch": {"7"}, "allocs": {"alloc-1"}}
		resp, _ := post(t, h, "/ui/act", form)
		if _, called := created[a.Name]; called || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s without a row: got %d", a.Name, resp.StatusCode)
		}
		form.Set("created", "5")
		resp, _ = post(t, h, "/ui/act", form)
		if created[a.Name] != 5 || resp.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: got %d, of the row %d", a.Name, resp.StatusCode, created[a.Name])
		}
	}
	if len(created) != 4 || detach == nil || detach.Shown == nil || detach.Shown.Epoch != 7 ||
		!slices.Equal(detach.Shown.Allocs, []string{"alloc-1"}) {
		t.Errorf("got %v and %+v", created, detach)
	}

	to := offer("force-detach", actions.Target{ID: "data", NodeID: "n1", Created: 5}, "").To
	_, body := get(t, h, to)
	wants(t, body, "Node alpha is down.", "Allocation alloc-1 loses its claim on volume data there.",
		`name="epoch" value="7"`, `name="allocs" value="alloc-1"`, `name="created" value="5"`)
}

func TestActions_ActWithTheRightsOfTheCaller(t *testing.T) {
	h, servers := newPage(t)
	var asked *structs.NodeDrainRequest
	apitest.On(servers, structs.NodeDrain, func(_ context.Context, req *structs.NodeDrainRequest) (
		*structs.Empty, error,
	) {
		if req.AuthToken != "s.operator" {
			return nil, structs.Deniedf("the token may not drain nodes")
		}
		asked = req
		return &structs.Empty{}, nil
	})

	form := url.Values{"do": {"drain"}, "id": {"n1"}}
	resp, body := post(t, h, "/ui/act", form)
	wants(t, body, "the token may not drain nodes", `role="alert"`, "Move all allocations off a node")
	if resp.StatusCode != http.StatusForbidden || asked != nil {
		t.Errorf("got %d", resp.StatusCode)
	}

	resp, _ = post(t, h, "/ui/act", form, "Cookie", loggedIn(h, "s.operator"))
	to := resp.Header.Get("Location")
	if resp.StatusCode != http.StatusSeeOther || to != "/ui/node?id=n1&namespace=default" ||
		asked == nil || asked.NodeID != "n1" || asked.DrainSpec.Deadline != time.Hour {
		t.Errorf("got %d to %q, asked for %+v", resp.StatusCode, to, asked)
	}
}

func TestActions_RejectOtherNamesAndOrigins(t *testing.T) {
	h, servers := newPage(t)
	for _, form := range []url.Values{
		{"do": {"none"}, "id": {"n1"}}, {"do": {"drain"}}, {},
		{"do": {"drain"}, "id": {strings.Repeat("x", structs.MaxName+1)}},
	} {
		resp, _ := post(t, h, "/ui/act", form)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%v: got %d", form, resp.StatusCode)
		}
	}
	form := url.Values{"do": {"drain"}, "id": {"n1"}}
	resp, _ := post(t, h, "/ui/act", form, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("another origin gets %d", resp.StatusCode)
	}
	if resp, _ := get(t, h, "/ui/act?"+form.Encode()); resp.StatusCode != http.StatusOK {
		t.Errorf("a GET gets %d", resp.StatusCode)
	}
	if calls := servers.Take(); len(calls) != 0 {
		t.Errorf("the servers were called: %v", calls)
	}
}

// names are the names of links.
func names(links []pages.Link) (all []string) {
	for _, l := range links {
		all = append(all, l.Name)
	}
	return all
}

func TestActions_FollowTheState(t *testing.T) {
	detaching := &structs.CSIVolumeDetail{
		Attachments: []*structs.CSIAttachment{{NodeID: "n1", State: structs.AttachmentDetaching}},
	}
	for _, c := range []struct {
		links []pages.Link
		want  string
	}{
		{nodeActions(&structs.Node{SchedulingEligibility: "eligible"}, true), "Drain, Forbid placements"},
		{nodeActions(&structs.Node{SchedulingEligibility: "ineligible"}, true), "Drain, Allow placements"},
		{nodeActions(&structs.Node{Drain: true}, true), "Cancel the drain"},
		{nodeActions(&structs.Node{Drain: true, Status: structs.NodeDown}, true),
			"Confirm that the machine is off, Fence, Delete the node, Cancel the drain"},
		{nodeActions(&structs.Node{Drain: true, Status: structs.NodeDown}, false),
			"Confirm that the machine is off, Delete the node, Cancel the drain"},
		{jobActions(&structs.Job{ID: "web"}, "team"), "Stop, Evaluate again, Replace failed allocations"},
		{jobActions(&structs.Job{ID: "web", Stop: true}, "team"), ""},
		{volumeActions(&structs.CSIVolumeDetail{}, nodeFacts{}), "Retry, Delete with its data"},
		{volumeActions(detaching, nodeFacts{}),
			"Detach from node n1, Detach by force from node n1, Retry, Delete with its data"},
		{volumeActions(&structs.CSIVolumeDetail{
			CSIVolume: structs.CSIVolume{
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
				CSIVolumeStatus: structs.CSIVolumeStatus{DeleteAt: 1},
			},
			Claims:      []*structs.CSIClaim{{NodeID: "n1"}, {NodeID: "n1"}},
			Attachments: []*structs.CSIAttachment{{NodeID: "n1"}, {NodeID: "n2"}},
		}, nodeFacts{
			states:    map[string]string{"n1": structs.NodeDown, "n2": structs.NodeDown},
			fenceable: map[string]bool{"n1": true},
		}), "Confirm that the machine is off, node n1, Fence, node n1, Detach from node n1, " +
			"Confirm that the machine is off, node n2, Detach from node n2, Retry, Keep"},
	} {
		if got := strings.Join(names(c.links), ", "); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// lostNode is the state of a node that is down and has a claim and a fence device.
func lostNode() *cluster.NodeFenceStatusResponse {
	return &cluster.NodeFenceStatusResponse{
		NodeID: "n1",
		Name:   "alpha",
		Status: structs.NodeDown,
		Epoch:  7,
		Devices: []*cluster.FenceDevice{
			{Name: "board", Scope: cluster.FencePower},
		},
		Claims: []*cluster.LostClaim{{
			CSIClaimKey: structs.CSIClaimKey{VolumeID: "data", Namespace: "team"},
			JobID:       "web",
		}},
	}
}

// A word about a lost node needs a reason, names the loss that the page has shown, and leads back.
func TestActions_ConfirmALossWithAReason(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, cluster.NodeFenceStatus, *lostNode())
	answerDetach(servers)
	var words []*cluster.NodeFenceRequest
	apitest.On(servers, cluster.NodeConfirmLost, func(_ context.Context, q *cluster.NodeFenceRequest) (
		*structs.Empty, error,
	) {
		words = append(words, q)
		return &structs.Empty{}, nil
	})

	to := offer("confirm-lost", actions.Target{ID: "n1"}, "/ui/volume?id=data&namespace=team").To
	_, body := get(t, h, to)
	wants(t, body, "Node alpha is down.", "Volume data of namespace team is released", `name="epoch" value="7"`,
		`name="from" value="/ui/volume?id=data&amp;namespace=team"`, "I have cut its power", "A machine that runs")

	form := url.Values{"do": {"confirm-lost"}, "id": {"n1"}, "epoch": {"7"}, "from": {"/ui/volume?id=data"}}
	resp, body := post(t, h, "/ui/act", form)
	wants(t, body, "a reason is needed", `value="/ui/volume?id=data"`)
	if resp.StatusCode != http.StatusBadRequest || len(words) != 0 {
		t.Errorf("without a reason: got %d, %v", resp.StatusCode, words)
	}
	form.Set("reason", "I have cut its power")
	resp, _ = post(t, h, "/ui/act", form)
	form.Set("words", " it burns ")
	form.Set("from", "https://evil.example")
	evil, _ := post(t, h, "/ui/act", form)
	if resp.Header.Get("Location") != "/ui/volume?id=data" || evil.Header.Get("Location") != Root ||
		len(words) != 2 || words[0].Epoch != 7 || words[0].NodeID != "n1" ||
		words[0].Why != "I have cut its power" || words[1].Why != "it burns" ||
		!strings.Contains(words[0].By, "the page of agent agent-1") {
		t.Errorf("got %d, %v and %+v", resp.StatusCode, resp.Header, words)
	}

	up := lostNode()
	up.Status = structs.NodeReady
	apitest.Answer(servers, cluster.NodeFenceStatus, *up)
	resp, body = get(t, h, to)
	wants(t, body, "node alpha is ready: its lease and grace have not ended")
	if resp.StatusCode != http.StatusPreconditionFailed {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// The actions that assert what the servers cannot see do not happen without a reason.
func TestActions_ThatForceNeedAReason(t *testing.T) {
	h, servers := newPage(t)
	answerDetach(servers)
	form := url.Values{"do": {"force-detach"}, "id": {"data"}, "node": {"n1"}, "created": {"5"}}
	resp, body := post(t, h, "/ui/act", form)
	wants(t, body, "a reason is needed", "the storage system shows that it is detached")
	detaches := func(c apitest.Recorded) bool { return c.Method == structs.CSIVolumeDetach.Name }
	calls := servers.Take()
	if resp.StatusCode != http.StatusBadRequest || slices.ContainsFunc(calls, detaches) {
		t.Errorf("got %d and the calls %v", resp.StatusCode, calls)
	}
}

// An action that the operator socket of the leader alone takes names both ways to do it there.
func TestActions_NameTheSocketThatTakesThem(t *testing.T) {
	h, servers := newPage(t)
	apitest.Answer(servers, cluster.NodeFenceStatus, *lostNode())
	answerDetach(servers)
	apitest.Fail(servers, cluster.NodeConfirmLost, &structs.Error{
		Kind: structs.KindDenied, Text: "only over the operator socket of server s1", Socket: "/run/b.sock",
	})
	form := url.Values{"do": {"confirm-lost"}, "id": {"n1"}, "reason": {"I have cut its power"}}
	resp, body := post(t, h, "/ui/act", form)
	wants(t, body, "only over the operator socket of server s1",
		"BERTH_ADDR=unix:///run/b.sock berth node confirm-lost -reason", "ssh -L 4747:/run/b.sock root@SERVER")
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// A node has a fence where a device of the servers fences it. The servers would reject any other one.
func TestActions_FenceWithADeviceAlone(t *testing.T) {
	for name, c := range map[string]struct {
		devices []*cluster.FenceDevice
		want    bool
	}{
		"none":         {nil, false},
		"power":        {[]*cluster.FenceDevice{{Scope: cluster.FencePower}}, true},
		"other volume": {[]*cluster.FenceDevice{{Scope: cluster.FenceStorage}}, false},
		"its volume":   {[]*cluster.FenceDevice{{Scope: cluster.FenceStorage, Covers: 1}}, true},
	} {
		h, servers := newPage(t)
		lost := lostNode()
		lost.Devices = c.devices
		apitest.Answer(servers, cluster.NodeFenceStatus, *lost)
		n := &structs.NodeDetail{Node: structs.Node{ID: "n1", Name: "alpha", Status: structs.NodeDown}}
		apitest.Answer(servers, structs.NodeGet, structs.NodeGetResponse{Node: n})
		apitest.Answer(servers, structs.CSIVolumeGet, structs.CSIVolumeGetResponse{Volume: &structs.CSIVolumeDetail{
			CSIVolume: structs.CSIVolume{
				ID: "data", Namespace: "team",
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeReady},
			},
			Claims: []*structs.CSIClaim{{NodeID: "n1", State: structs.ClaimGranted}},
		}})

		for _, path := range []string{"/ui/node?id=n1", "/ui/volume?id=data&namespace=team"} {
			_, body := get(t, h, path)
			wants(t, body, "do=confirm-lost")
			if got := strings.Contains(body, "do=fence"); got != c.want {
				t.Errorf("%s: %s has a fence: %t, want %t\n%s", name, path, got, c.want, body)
			}
		}
		resp, body := get(t, h, offer("fence", actions.Target{ID: "n1"}, "").To)
		if got := resp.StatusCode == http.StatusOK; got != c.want {
			t.Errorf("%s: the confirmation gets %d:\n%s", name, resp.StatusCode, body)
		}
		if !c.want {
			wants(t, body, "no fence device of the servers matches the node", "berth node confirm-lost -reason")
		}
	}
}
