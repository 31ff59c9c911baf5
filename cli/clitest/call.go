package clitest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/api"
	"berth/cli/command"
)

// CallOf returns a call of an agent with answers by path. The agent has no other paths.
func CallOf(t *testing.T, out *strings.Builder, answers map[string]func() any) *command.Call {
	t.Helper()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		if answer == nil {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answer())
	}))
	t.Cleanup(agent.Close)
	client := api.NewClient(api.ClientConfig{Address: agent.URL})
	t.Cleanup(client.Close)
	return &command.Call{Stdio: command.Stdio{Out: out}, Command: &command.Command{}, API: client}
}
