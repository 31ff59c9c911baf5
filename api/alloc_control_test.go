package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/api"
	"berth/api/allocs"
	"berth/structs"
)

// TestAllocControl_ReachesTheNodesAgent: another agent forwards the request once, with its body. An error of
// the agent that runs the allocation is the answer.
func TestAllocControl_ReachesTheNodesAgent(t *testing.T) {
	far, near := newServer(t), newServer(t)
	var acts []string
	far.agent.Control = func(act string) error {
		acts = append(acts, act)
		switch {
		case strings.Contains(act, "gone"):
			return structs.NotFoundf("it is not here")
		case strings.Contains(act, "ended"):
			return structs.Conflictf("task %q does not run", "ended")
		}
		return nil
	}
	addr := strings.TrimPrefix(far.URL, "http://")
	placeOn(near, addr)
	placeOn(far, addr)
	for _, s := range []*server{near, far} {
		acts = nil
		c := api.NewClient(api.ClientConfig{Address: s.URL})
		t.Cleanup(c.Close)
		for _, call := range []func() error{
			func() error { return allocs.Restart(t.Context(), c, "here", api.AllocRestartRequest{}) },
			func() error {
				return allocs.Restart(t.Context(), c, "here", api.AllocRestartRequest{TaskName: "web"})
			},
			func() error {
				return allocs.Restart(t.Context(), c, "here", api.AllocRestartRequest{AllTasks: true})
			},
			func() error {
				return allocs.Signal(t.Context(), c, "here", api.AllocSignalRequest{Task: "web", Signal: "HUP"})
			},
			func() error { return allocs.GC(t.Context(), c, "here") },
		} {
			if err := call(); err != nil {
				t.Error(err)
			}
		}
		for _, method := range []string{"GET", "POST"} {
			resp, body := s.do(t, method, "/v1/client/allocation/here/gc", "")
			if resp.StatusCode != http.StatusOK || strings.TrimSpace(body) != "{}" {
				t.Errorf("%s: got %d %q", method, resp.StatusCode, body)
			}
		}
		want := []string{"restart here ", "restart here web", "restart all here", "signal here web HUP",
			"gc here", "gc here", "gc here"}
		if !slices.Equal(acts, want) {
			t.Errorf("the node's agent got\n%q, want\n%q", acts, want)
		}
		err := allocs.Restart(t.Context(), c, "here", api.AllocRestartRequest{TaskName: "ended"})
		if !structs.IsKind(err, structs.KindConflict) || !strings.Contains(err.Error(), "does not run") {
			t.Errorf("an ended task: %v", err)
		}
	}
	resp, body := near.do(t, "PUT", "/v1/client/allocation/gone/restart", "")
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("an allocation that no agent runs: %s %s", resp.Status, body)
	}
}

func TestAllocControl_RejectsWrongRequests(t *testing.T) {
	s := newServer(t)
	s.agent.Control = func(act string) error {
		t.Errorf("the agent is asked to %s", act)
		return nil
	}
	for _, c := range []struct{ path, body, want string }{
		{"restart", `{"TaskName":"web","AllTasks":true}`, "exclude each other"},
		{"restart", `{"Task":"web"}`, "Task"},
		{"signal", ``, "the body is empty"},
		{"signal", `{"Task":"web"}`, `"" is not a signal`},
		{"signal", `{"Signal":"SIGNONE"}`, `"SIGNONE" is not a signal such as SIGHUP`},
	} {
		resp, body := s.do(t, "PUT", "/v1/client/allocation/here/"+c.path, c.body)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: got %d %q, want %q", c.path, c.body, resp.StatusCode, body, c.want)
		}
	}
}

// A page in a browser may send a GET to the agent of its machine.
func TestAllocGC_DeniesPagesOfOtherOrigins(t *testing.T) {
	s := newServer(t)
	s.agent.Control = func(act string) error {
		t.Errorf("the agent is asked to %s", act)
		return nil
	}
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://example.com"} {
		req, err := http.NewRequest("GET", s.URL+"/v1/client/allocation/here/gc", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(name, value)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %s", name, resp.Status)
		}
	}
}
