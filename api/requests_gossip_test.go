package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/api"
	"berth/api/operator"
	"berth/structs"
	"berth/structs/cluster"
)

// gossipCalls has the requests to the routes of the keys of the gossip.
func gossipCalls() map[string]routeCall {
	return map[string]routeCall{
		"GET /v1/agent/keyring/list": {path: "/v1/agent/keyring/list", status: 200},
		"PUT /v1/agent/keyring/install": {
			path:   "/v1/agent/keyring/install",
			body:   `{"Key":"c2l4dGVlbi1ieXRlcy4uLg=="}`,
			status: 200,
		},
		"PUT /v1/agent/keyring/use": {
			path:   "/v1/agent/keyring/use",
			body:   `{"Key":"c2l4dGVlbi1ieXRlcy4uMQ=="}`,
			status: 412, // no server has it
		},
		"PUT /v1/agent/keyring/remove": {
			path:   "/v1/agent/keyring/remove",
			body:   `{"Key":"c2l4dGVlbi1ieXRlcy4uMg=="}`,
			status: 200,
		},
	}
}

func TestGossipKeyring_DoesTheOperations(t *testing.T) {
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	defer c.Close()
	key := cluster.NewGossipKey()
	s.agent.GossipKeys = []string{cluster.NewGossipKey()}
	for _, op := range []cluster.GossipKeyOperation{cluster.GossipKeyInstall, cluster.GossipKeyUse} {
		rings, err := operator.GossipKeyring(t.Context(), c, op, key)
		if err != nil || rings.NumNodes != 3 {
			t.Errorf("%s: got %+v, error %v", op, rings, err)
		}
	}
	rings, err := operator.GossipKeyring(t.Context(), c, cluster.GossipKeyList, "")
	if err != nil || len(rings.Keys) != 2 || rings.PrimaryKeys[key] != 3 {
		t.Errorf("got %+v, error %v", rings, err)
	}
	_, err = operator.GossipKeyring(t.Context(), c, cluster.GossipKeyRemove, key)
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("removing the primary key: %v", err)
	}

	s.agent.GossipDenied = "/srv/berth.sock"
	_, err = operator.GossipKeyring(t.Context(), c, cluster.GossipKeyList, "")
	if !structs.IsKind(err, structs.KindDenied) || structs.SocketOf(err) != "/srv/berth.sock" {
		t.Errorf("got %v with the socket %q", err, structs.SocketOf(err))
	}
}

// TestGossipKeyring_ShowsNoKeyInFaultsOfTheBody sends bodies with a key in a wrong place.
func TestGossipKeyring_ShowsNoKeyInFaultsOfTheBody(t *testing.T) {
	s := newServer(t)
	const canary = "Y2FuYXJ5"
	for _, body := range []string{
		`{"Keys": "` + canary + `"}`,
		`{"Key": ["` + canary + `"]}`,
		`{"Key": {"a": "` + canary + `"}}`,
		`{"Key": "` + canary,
		`"` + canary + `"`,
		canary,
	} {
		resp, err := http.Post(s.URL+"/v1/agent/keyring/install", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || strings.Contains(string(text), canary) {
			t.Errorf("%s: got %s: %s, error %v", body, resp.Status, text, err)
		}
	}
}
