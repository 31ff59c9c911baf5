package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"berth/api"
	"berth/api/nodes"
)

// TestClient_TellsOfALateAnswer has an agent that answers only when Late was called. The answer to a blocking
// read is not late.
func TestClient_TellsOfALateAnswer(t *testing.T) {
	told := make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("index") {
			select {
			case <-told:
			case <-r.Context().Done():
			}
		}
		fmt.Fprint(w, "[]")
	}))
	defer agent.Close()

	calls := 0
	c := api.NewClient(api.ClientConfig{
		Address: agent.URL,
		Late: func() {
			calls++
			close(told)
		},
	})
	defer c.Close()
	for _, q := range []*api.Query{nil, {MinIndex: 7}, {}} {
		_, _, err := nodes.List(t.Context(), c, q)
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("it told %d times of a late answer", calls)
	}
}
