package ui

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/api/apitest"
	"berth/structs"
)

// Each action has the words of its command and leads back to the thing. Nothing happens before the form is
// sent.
func TestActions_AreConfirmedWithTheWordsOfTheCommand(t *testing.T) {
	h, servers := newPage(t)
	for _, a := range actions {
		to := offer(a.name, target{namespace: "team", id: "thing-1", nodeID: "node-1"}).To
		resp, body := get(t, h, to)
		wants(t, body, a.command.Synopsis, `method="post" action="/ui/act"`, `value="thing-1"`, `value="team"`)
		if resp.StatusCode != http.StatusOK || !strings.HasPrefix(a.line(target{id: "x"}), "berth ") ||
			!strings.Contains(body, a.back+"?id=thing-1&amp;namespace=team") {
			t.Errorf("%s: %d\n%s", a.name, resp.StatusCode, body)
		}
	}
	if calls := servers.Take(); len(calls) != 0 {
		t.Errorf("a confirmation calls the servers: %v", calls)
	}
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
func names(links []link) (all []string) {
	for _, l := range links {
		all = append(all, l.Name)
	}
	return all
}

func TestActions_FollowTheState(t *testing.T) {
	for _, c := range []struct {
		links []link
		want  string
	}{
		{nodeActions(&structs.Node{SchedulingEligibility: "eligible"}), "Drain, Forbid placements"},
		{nodeActions(&structs.Node{SchedulingEligibility: "ineligible"}), "Drain, Allow placements"},
		{nodeActions(&structs.Node{Drain: true}), "Cancel the drain"},
		{volumeActions(&structs.CSIVolumeDetail{}), "Delete with its data"},
		{volumeActions(&structs.CSIVolumeDetail{
			CSIVolume:   structs.CSIVolume{State: structs.VolumeReady, DeleteAt: 1},
			Claims:      []*structs.CSIClaim{{NodeID: "n1"}, {NodeID: "n1"}},
			Attachments: []*structs.CSIAttachment{{NodeID: "n1"}, {NodeID: "n2"}},
		}), "Detach from node n1, Detach from node n2, Keep"},
	} {
		if got := strings.Join(names(c.links), ", "); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
