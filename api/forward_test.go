package api_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/structs"
	"berth/structs/access"
	"berth/test/kit"
)

// nodeRequest is a request to the agent of a node.
type nodeRequest struct {
	target, body string
	status       int // of the answer; 0 for 200
}

// nodeRequests has requests to each route of a node's agent, by the route. The allocation here is on the node
// n. It has the tasks web and t, and the allocation gone is nowhere.
var nodeRequests = map[string][]nodeRequest{
	"GET /v1/client/stats": {
		{target: "/v1/client/stats?node_id=n"},
		{target: "/v1/client/stats?node_id=none", status: 404},
	},
	"GET /v1/client/gc": {
		{target: "/v1/client/gc?node_id=n"},
		{target: "/v1/client/gc?node_id=none", status: 404},
	},
	"GET /v1/client/identity": {
		{target: "/v1/client/identity?node_id=n"},
		{target: "/v1/client/identity?node_id=none", status: 404},
	},
	"PUT /v1/client/identity/renew": {
		{target: "/v1/client/identity/renew?node_id=n", body: `{}`},
		{target: "/v1/client/identity/renew", body: `{"NodeID":"n"}`},
		{target: "/v1/client/identity/renew?node_id=n", body: `{"NodeID":"m"}`, status: 400},
		{target: "/v1/client/identity/renew?node_id=none", body: `{}`, status: 404},
	},
	"GET /v1/client/metadata": {
		{target: "/v1/client/metadata?node_id=n"},
		{target: "/v1/client/metadata?node_id=none", status: 404},
	},
	"PUT /v1/client/metadata": {
		{target: "/v1/client/metadata?node_id=n", body: `{"Meta":{"a":"b"}}`},
		{target: "/v1/client/metadata", body: `{"NodeID":"n","Meta":{"a":"b"}}`},
		{target: "/v1/client/metadata?node_id=n", body: `{"Meta":{}}`, status: 400},
		{target: "/v1/client/metadata?node_id=n", body: `{"NodeID":"m","Meta":{"a":"b"}}`, status: 400},
		{target: "/v1/client/metadata?node_id=none", body: `{"Meta":{"a":"b"}}`, status: 404},
	},
	"PUT /v1/client/gc": {
		{target: "/v1/client/gc?node_id=n"},
		{target: "/v1/client/gc?node_id=none", status: 404},
	},
	"GET /v1/client/allocation/{id}/checks": {
		{target: "/v1/client/allocation/here/checks"},
		{target: "/v1/client/allocation/gone/checks", status: 404},
	},
	"GET /v1/client/allocation/{id}/exec": {
		{target: "/v1/client/allocation/here/exec?command=[]", status: 400},
		{target: "/v1/client/allocation/here/exec?task=db&command=[%22sh%22]", status: 400},
		{target: "/v1/client/allocation/here/exec?task=web&command=[%22sh%22]", status: 400},
	},
	"GET /v1/client/allocation/{id}/stats": {
		{target: "/v1/client/allocation/here/stats"},
		{target: "/v1/client/allocation/here/stats?task=web"},
		{target: "/v1/client/allocation/here/stats?task=none", status: 412},
		{target: "/v1/client/allocation/gone/stats", status: 404},
	},
	"GET /v1/client/allocation/{id}/gc": {
		{target: "/v1/client/allocation/here/gc"},
		{target: "/v1/client/allocation/gone/gc", status: 404},
	},
	"PUT /v1/client/allocation/{id}/gc": {
		{target: "/v1/client/allocation/here/gc"},
		{target: "/v1/client/allocation/gone/gc", status: 404},
	},
	"PUT /v1/client/allocation/{id}/restart": {
		{target: "/v1/client/allocation/here/restart"},
		{target: "/v1/client/allocation/here/restart", body: `{"TaskName":"web"}`},
		{target: "/v1/client/allocation/here/restart", body: `{"TaskName":"none"}`, status: 400},
		{target: "/v1/client/allocation/here/restart", body: `{"AllTasks":true}`},
		{target: "/v1/client/allocation/here/restart", body: `{"AllTasks":1}`, status: 400},
		{target: "/v1/client/allocation/gone/restart", status: 404},
	},
	"PUT /v1/client/allocation/{id}/signal": {
		{target: "/v1/client/allocation/here/signal", body: `{"Signal":"HUP"}`},
		{target: "/v1/client/allocation/here/signal", body: `{"Signal":"HUP","Task":"none"}`, status: 400},
		{target: "/v1/client/allocation/here/signal", body: `{"Signal":"none"}`, status: 400},
		{target: "/v1/client/allocation/gone/signal", body: `{"Signal":"HUP"}`, status: 404},
	},
	"GET /v1/client/fs/ls/{id}": {
		{target: "/v1/client/fs/ls/here"},
		{target: "/v1/client/fs/ls/here?path=alloc"},
		{target: "/v1/client/fs/ls/here?path=none", status: 404},
		{target: "/v1/client/fs/ls/gone?path=alloc", status: 404},
	},
	"GET /v1/client/fs/stat/{id}": {
		{target: "/v1/client/fs/stat/here?path=alloc/data/f"},
		{target: "/v1/client/fs/stat/here", status: 400},
		{target: "/v1/client/fs/stat/gone?path=f", status: 404},
	},
	"GET /v1/client/fs/cat/{id}": {
		{target: "/v1/client/fs/cat/here?path=alloc/data/f"},
		{target: "/v1/client/fs/cat/here?path=web/secrets/token", status: 403},
		{target: "/v1/client/fs/cat/gone?path=f", status: 404},
	},
	"GET /v1/client/fs/readat/{id}": {
		{target: "/v1/client/fs/readat/here?path=alloc/data/f&offset=4&limit=3"},
		{target: "/v1/client/fs/readat/here?path=alloc/data/f&offset=x", status: 400},
		{target: "/v1/client/fs/readat/gone?path=f", status: 404},
	},
	"GET /v1/client/fs/stream/{id}": {
		{target: "/v1/client/fs/stream/here?path=alloc/data/f&follow=false"},
		{target: "/v1/client/fs/stream/here?path=alloc/data/f&follow=false&plain=true&origin=end&lines=1"},
		{target: "/v1/client/fs/stream/here?path=none&follow=false", status: 404},
		{target: "/v1/client/fs/stream/gone?path=f", status: 404},
	},
	"GET /v1/client/fs/logs/{id}": {
		{target: "/v1/client/fs/logs/here?task=t&type=stdout"},
		{target: "/v1/client/fs/logs/here?task=t&type=stdout&plain=true&origin=end&offset=4"},
		{target: "/v1/client/fs/logs/here?task=none&type=stdout", status: 404},
		{target: "/v1/client/fs/logs/here?task=t", status: 400},
		{target: "/v1/client/fs/logs/gone?task=t&type=stdout", status: 404},
	},
}

// eachNodeRequest calls do with each request. It fails the test if a route has none.
func eachNodeRequest(t *testing.T, do func(method string, r nodeRequest)) {
	t.Helper()
	unused := map[string]bool{}
	for route := range nodeRequests {
		unused[route] = true
	}
	for _, r := range areas.Routes() {
		if !strings.HasPrefix(r.Path, "/v1/client/") {
			continue
		}
		method := strings.Fields(r.Methods)[0]
		route := method + " " + r.Path
		if len(nodeRequests[route]) == 0 {
			t.Errorf("no request is made to %s", route)
		}
		delete(unused, route)
		for _, req := range nodeRequests[route] {
			do(method, req)
		}
	}
	if len(unused) > 0 {
		t.Errorf("there are no routes %v", unused)
	}
}

// runsNode lets a server's agent be that of the node n.
func runsNode(t *testing.T, s *server) {
	t.Helper()
	s.agent.Node = "n"
	s.agent.UsageIs = measured("web")
	s.agent.ChecksAre = map[string]map[string]*structs.CheckResult{
		"here": {"c": {ID: "c", Check: "up", Status: structs.CheckFailing, Output: "rejected"}},
	}
	writeFiles(t, s.agent)
	writeLogs(t, s, "one\n", "two\n")
	runsCommands(s, echo)
	s.agent.Control = func(act string) error {
		switch {
		case strings.Contains(act, "gone"):
			return structs.NotFoundf("allocation gone is not here")
		case strings.Contains(act, "none"):
			return structs.Invalidf("the allocation has no task %q", "none")
		}
		return nil
	}
}

// answerOf makes a request and returns all of the answer that a client sees.
func answerOf(t *testing.T, s *server, method string, r nodeRequest) (status int, answer string) {
	t.Helper()
	resp, text := s.do(t, method, r.target, r.body)
	h := resp.Header
	return resp.StatusCode, fmt.Sprint(resp.Status, h["Content-Type"], h["X-Berth-Error-Kind"],
		h["X-Content-Type-Options"], h["Content-Length"], "\n", text)
}

// TestNodeRoutes_AnswerAlikeAtEveryAgent makes each request at the agent of the node and at another one.
func TestNodeRoutes_AnswerAlikeAtEveryAgent(t *testing.T) {
	far, near := newServer(t), newServer(t)
	runsNode(t, far)
	near.agent.StatsAre = nil
	addr := strings.TrimPrefix(far.URL, "http://")
	placeOn(near, addr)
	placeOn(far, addr)
	eachNodeRequest(t, func(method string, r nodeRequest) {
		status, there := answerOf(t, far, method, r)
		_, here := answerOf(t, near, method, r)
		if here != there {
			t.Errorf("%s %s %s:\nthe node's agent answers %s\nanother one %s", method, r.target, r.body, there, here)
		}
		if status != cmp.Or(r.status, 200) {
			t.Errorf("%s %s %s: %s", method, r.target, r.body, there)
		}
	})
	for _, task := range []string{"", "web", "db"} {
		there := resultOf(t, far, task)
		here := resultOf(t, near, task)
		if here != there || strings.HasPrefix(there, "7 <nil>") == (task == "db") {
			t.Errorf("a command in task %q: the node's agent answers\n%s\nanother one\n%s", task, there, here)
		}
	}
}

// resultOf runs a command in a task of the allocation here and returns all of its result.
func resultOf(t *testing.T, s *server, task string) string {
	t.Helper()
	var out, errs bytes.Buffer
	code, err := runExec(t.Context(), newClient(t, s), "here", task, &api.Exec{
		Command: []string{"sh"},
		Stdin:   strings.NewReader("input"),
		Stdout:  &out,
		Stderr:  &errs,
	})
	return fmt.Sprintln(code, err, out.String(), errs.String())
}

// TestNodeRoutes_NameTheNodeThatCannotBeReached: the error has the node, its address and the remedy.
func TestNodeRoutes_NameTheNodeThatCannotBeReached(t *testing.T) {
	near := newServer(t)
	near.agent.StatsAre = nil
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	kit.Must(t, l.Close())
	for _, c := range []struct {
		node   structs.Node
		status int
		parts  []string
	}{
		{
			structs.Node{ID: "n", Name: "one", Status: structs.NodeDown, HTTPAddr: free},
			503,
			[]string{"node one (n, status down)", free, "nothing is listening there", "advertise { http }"},
		},
		{
			structs.Node{ID: "n", Name: "one"},
			412,
			[]string{"node one (n)", "no HTTP address", "advertise { http }"},
		},
	} {
		placeOn(near, "")
		apitest.Answer(near.caller, structs.NodeGet, structs.NodeGetResponse{
			Node: &structs.NodeDetail{Node: c.node},
		})
		asked := 0
		eachNodeRequest(t, func(method string, r nodeRequest) {
			status, answer := answerOf(t, near, method, r)
			if status == 200 || status == 400 {
				return // this agent answers a wrong request itself
			}
			asked++
			for _, part := range c.parts {
				if status != c.status || !strings.Contains(answer, part) {
					t.Errorf("%s %s: got %s, want %d with %q", method, r.target, answer, c.status, part)
				}
			}
		})
		if asked < 30 {
			t.Errorf("%d requests were for the node", asked)
		}
		result := resultOf(t, near, "web")
		for _, part := range c.parts {
			if !strings.Contains(result, part) {
				t.Errorf("a command: got %s, want it with %q", result, part)
			}
		}
	}
}

// An agent that takes a request and does not answer may have acted on it.
func TestNodeRoutes_AnAgentThatDoesNotAnswerLeavesTheOutcomeOpen(t *testing.T) {
	took := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		took <- struct{}{}
		panic(http.ErrAbortHandler) // ends the connection
	}))
	defer silent.Close()
	near := newServer(t)
	placeOn(near, "")
	apitest.Answer(near.caller, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{
		Node: structs.Node{ID: "n", Name: "one", HTTPAddr: silent.Listener.Addr().String()},
	}})
	restart := nodeRequest{target: "/v1/client/allocation/here/restart"}
	status, answer := answerOf(t, near, http.MethodPut, restart)
	<-took
	const want = "may have taken effect; before you repeat it, look at: berth alloc status here"
	if status != http.StatusGatewayTimeout || !strings.Contains(answer, want) {
		t.Errorf("got %d: %s", status, answer)
	}
	if len(took) != 0 {
		t.Error("the agent got the request twice")
	}
}

// The address of a node may be that of a TLS server. That one has taken no request.
func TestNodeRoutes_ATLSServerAtTheAddressHasDoneNothing(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	near := newServer(t)
	for _, addr := range []string{secure.Listener.Addr().String(), alertingServer(t)} {
		placeOn(near, "")
		apitest.Answer(near.caller, structs.NodeGet, structs.NodeGetResponse{Node: &structs.NodeDetail{
			Node: structs.Node{ID: "n", Name: "one", HTTPAddr: addr},
		}})
		restart := nodeRequest{target: "/v1/client/allocation/here/restart"}
		status, answer := answerOf(t, near, http.MethodPut, restart)
		for _, part := range []string{addr, "may expect TLS", "advertise { http }"} {
			if status != http.StatusServiceUnavailable || !strings.Contains(answer, part) {
				t.Errorf("got %d, %s; want 503 with %q", status, answer, part)
			}
		}
	}
}

// TestNodeRoutes_NameTheCallerOfAStream: the agent of the node learns from the server for whom it forwards. A
// caller cannot name another one.
func TestNodeRoutes_NameTheCallerOfAStream(t *testing.T) {
	named := make(chan string, 1)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named <- r.Header.Get(api.HeaderStreamCaller)
		w.Header().Set("X-Berth-Error-Kind", "")
	}))
	defer node.Close()
	near := newServer(t, func(c *api.Config) { c.ACL = true })
	apitest.Answer(near.caller, access.Check, access.CheckResponse{})
	placeOn(near, node.Listener.Addr().String())
	callerOf := func(token string) string {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, near.URL+"/v1/client/fs/stream/here?path=alloc/data/f", nil)
		kit.Must(t, err)
		req.Header.Set(api.HeaderStreamCaller, "root")
		req.Header.Set("X-Berth-Token", token)
		resp, err := http.DefaultClient.Do(req)
		kit.Must(t, err)
		kit.Must(t, resp.Body.Close())
		return <-named
	}

	if none := callerOf(""); none != "address 127.0.0.1" {
		t.Errorf("without a token: got %q", none)
	}
	one := callerOf("s.one")
	if one == callerOf("s.two") || !strings.HasPrefix(one, "token ") || strings.Contains(one, "s.one") {
		t.Errorf("with a token: got %q", one)
	}
}

// alertingServer answers each request in plain text with an alert of TLS, as many TLS servers do.
func alertingServer(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = conn.Write([]byte{0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x0a})
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}
