package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/api"
	"berth/api/apitest"
	"berth/api/operator"
	"berth/structs"
	"berth/structs/cluster"
)

// TestAutopilotHealth_IsAlsoAnAnswerWhenUnhealthy: the status is 429, as the dialect has it, and the client
// reads the answer all the same.
func TestAutopilotHealth_IsAlsoAnAnswerWhenUnhealthy(t *testing.T) {
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	t.Cleanup(c.Close)
	since := time.Unix(1_800_000_000, 0).UTC()
	for _, healthy := range []bool{true, false} {
		apitest.Answer(s.caller, cluster.AutopilotHealth, cluster.AutopilotHealthResponse{
			Healthy: healthy,
			Leader:  "s1",
			Voters:  []string{"s1"},
			Servers: []*cluster.ServerHealth{{
				ID:          "s1",
				SerfStatus:  "alive",
				LastContact: 31 * time.Millisecond,
				Healthy:     healthy,
				StableSince: since,
			}},
		})
		want := http.StatusOK
		if !healthy {
			want = http.StatusTooManyRequests
		}
		resp, body := s.do(t, "GET", "/v1/operator/autopilot/health", "")
		if resp.StatusCode != want || !strings.Contains(body, `"LastContact":"31ms"`) {
			t.Errorf("healthy %t: %s %s", healthy, resp.Status, body)
		}
		got, _, err := operator.AutopilotHealth(t.Context(), c, nil)
		if err != nil {
			t.Fatalf("healthy %t: %v", healthy, err)
		}
		first := *got.Servers[0]
		if got.Healthy != healthy || first.LastContact != 31*time.Millisecond || !first.StableSince.Equal(since) {
			t.Errorf("healthy %t: got %+v with %+v", healthy, got, first)
		}
	}
	apitest.Fail(s.caller, cluster.AutopilotHealth, structs.Unavailablef("no leader"))
	_, _, err := operator.AutopilotHealth(t.Context(), c, nil)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("without a leader: %v", err)
	}
}

func TestAutopilotConfig_HasDurationsAsTexts(t *testing.T) {
	s := newServer(t)
	c := api.NewClient(api.ClientConfig{Address: s.URL})
	t.Cleanup(c.Close)
	want := cluster.DefaultAutopilotConfig()
	want.ModifyIndex = 7
	apitest.Answer(s.caller, cluster.AutopilotConfigGet, cluster.AutopilotConfigResponse{Config: &want})
	_, body := s.do(t, "GET", "/v1/operator/autopilot/configuration", "")
	for _, text := range []string{`"LastContactThreshold":"200ms"`, `"ServerStabilizationTime":"10s"`} {
		if !strings.Contains(body, text) {
			t.Errorf("the answer lacks %s: %s", text, body)
		}
	}
	got, _, err := operator.GetAutopilotConfig(t.Context(), c, nil)
	if err != nil || *got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	apitest.Answer(s.caller, cluster.AutopilotConfigSet, cluster.AutopilotConfigSetResponse{Updated: true})
	for _, body := range []string{
		`{"LastContactThreshold":"soon"}`,
		`{"LastContactThreshold":200000000}`,
		`{"EnableCustomUpgrades":true}`, // berth has no such thing
	} {
		resp, text := s.do(t, "PUT", "/v1/operator/autopilot/configuration", body)
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s %s", body, resp.Status, text)
		}
	}
	resp, text := s.do(t, "PUT", "/v1/operator/autopilot/configuration", `{"ServerStabilizationTime":"0s"}`)
	if resp.StatusCode != http.StatusOK || strings.TrimSpace(text) != "true" {
		t.Errorf("a valid one: %s %s", resp.Status, text)
	}
}
