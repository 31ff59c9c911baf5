package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"berth/api/areas"
)

// nodeRoutes has a request to each route of a node's agent, without the websocket of commands. ALLOC is a
// running allocation, NODE its node.
var nodeRoutes = map[string]struct{ target, body string }{
	"GET /v1/client/stats":    {target: "/v1/client/stats?node_id=NODE"},
	"GET /v1/client/gc":       {target: "/v1/client/gc?node_id=NODE"},
	"PUT /v1/client/gc":       {target: "/v1/client/gc?node_id=NODE"},
	"GET /v1/client/metadata": {target: "/v1/client/metadata?node_id=NODE"},
	"PUT /v1/client/metadata": {
		target: "/v1/client/metadata?node_id=NODE",
		body:   `{"Meta":{"rack":"r1"}}`,
	},
	// The agents of this cluster have no certificates: each says so.
	"GET /v1/client/identity":       {target: "/v1/client/identity?node_id=NODE"},
	"PUT /v1/client/identity/renew": {target: "/v1/client/identity/renew?node_id=NODE", body: "{}"},

	"GET /v1/client/allocation/{id}/checks": {target: "/v1/client/allocation/ALLOC/checks"},
	"GET /v1/client/allocation/{id}/exec":   {target: "/v1/client/allocation/ALLOC/exec"},
	"GET /v1/client/allocation/{id}/stats":  {target: "/v1/client/allocation/ALLOC/stats?task=t"},
	"GET /v1/client/allocation/{id}/gc":     {target: "/v1/client/allocation/ALLOC/gc"},
	"PUT /v1/client/allocation/{id}/gc":     {target: "/v1/client/allocation/ALLOC/gc"},
	"PUT /v1/client/allocation/{id}/restart": {
		target: "/v1/client/allocation/ALLOC/restart",
		body:   `{"TaskName":"x"}`,
	},
	"PUT /v1/client/allocation/{id}/signal": {
		target: "/v1/client/allocation/ALLOC/signal",
		body:   `{"Signal":"CONT"}`,
	},
	"GET /v1/client/fs/ls/{id}":     {target: "/v1/client/fs/ls/ALLOC?path=t/local"},
	"GET /v1/client/fs/stat/{id}":   {target: "/v1/client/fs/stat/ALLOC?path=t/local/f"},
	"GET /v1/client/fs/cat/{id}":    {target: "/v1/client/fs/cat/ALLOC?path=t/local/f"},
	"GET /v1/client/fs/readat/{id}": {target: "/v1/client/fs/readat/ALLOC?path=t/local/f&offset=4&limit=3"},
	"GET /v1/client/fs/stream/{id}": {target: "/v1/client/fs/stream/ALLOC?path=t/local/f&follow=false"},
	"GET /v1/client/fs/logs/{id}":   {target: "/v1/client/fs/logs/ALLOC?task=t&type=stdout&plain=true"},
}

// measure is a number of a statistic, which differs from one answer to the next.
var measure = regexp.MustCompile(`:-?[0-9][0-9.e+-]*`)

// answerTo makes a request of an agent and returns its answer, with 0 for each number of a statistic.
func (a *agent) answerTo(method, target, body string) string {
	a.t.Helper()
	url := "http://127.0.0.1:" + strconv.Itoa(a.http) + target
	req, err := http.NewRequestWithContext(a.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	text := string(b)
	if strings.Contains(target, "stats") {
		text = measure.ReplaceAllString(text, ":0")
	}
	h := resp.Header
	return fmt.Sprint(resp.StatusCode, h["Content-Type"], h["X-Berth-Error-Kind"], " ", text)
}

// TestNodeRoutes_AnswerAlikeAtEveryAgent: a request for a node has the same answer at the node's agent and
// at servers, which are other agents. The error of a node that cannot be reached has the remedy.
func TestNodeRoutes_AnswerAlikeAtEveryAgent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	server := c.servers[0]
	server.mustEventually("job", "run", server.writeJob(jobFile{
		name:   "routes",
		script: "echo one two three > /local/f; echo up; sleep 1000",
	}))
	alloc := server.awaitRunning("routes", 1)[0].ID
	for _, s := range c.servers {
		s.awaitOutput(alloc, "up") // each server knows the allocation
	}
	self, err := get[struct {
		Stats map[string]map[string]string `json:"stats"`
	}](c.node, "/v1/agent/self")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("ALLOC", alloc, "NODE", self.Stats["client"]["node_id"])
	for _, r := range areas.Routes() {
		if !strings.HasPrefix(r.Path, "/v1/client/") {
			continue
		}
		method := strings.Fields(r.Methods)[0]
		req, known := nodeRoutes[method+" "+r.Path]
		if !known {
			t.Errorf("no request is made to %s %s", method, r.Path)
			continue
		}
		want := c.node.answerTo(method, names.Replace(req.target), req.body)
		for _, s := range c.servers {
			got := s.answerTo(method, names.Replace(req.target), req.body)
			if got != want {
				t.Errorf("%s %s: %s answers\n%s, the node\n%s", method, req.target, s.name, got, want)
			}
		}
	}
	for _, a := range append([]*agent{c.node}, c.servers...) {
		_, err := a.run("alloc", "exec", alloc, "/bin/sh", "-c", "cat /local/f; exit 3")
		if exitCode(err) != 3 || !strings.Contains(err.Error(), "one two three") {
			t.Errorf("a command through %s: %v", a.name, err)
		}
	}
	c.checkUnreachable(alloc)
	server.mustEventually("job", "stop", "-purge", "routes")
}

// checkUnreachable kills the node and starts it again. Meanwhile the errors have the node and the remedy.
func (c *testCluster) checkUnreachable(alloc string) {
	c.t.Helper()
	c.node.kill()
	address := "127.0.0.1:" + strconv.Itoa(c.node.http)
	for _, s := range c.servers {
		s.mustFailEventually(7, []string{"node n0", address, "nothing is listening there", "advertise { http }"},
			"alloc", "fs", alloc, "t/local/f")
		s.mustFailEventually(7, []string{"node n0", address}, "alloc", "exec", alloc, "/bin/true")
	}
	c.node.start()
	c.servers[0].awaitOutput(alloc, "up")
}
