package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/api"
	"berth/api/allocs"
	"berth/api/apitest"
	"berth/structs"
	"berth/structs/access"
)

// A reader of a log learns that the log ended with the right, and does not take the part for the whole: by
// the error, or because frames break off. It does not matter which agent has the log.
func TestLogs_TellTheEndOfTheRight(t *testing.T) {
	far := newServer(t)
	near := newServer(t)
	writeLogs(t, far, "one\n")
	apitest.Answer(near.caller, structs.AllocGet, structs.AllocGetResponse{
		Alloc: &structs.Allocation{ID: "here", NodeID: "n"},
	})
	apitest.Answer(near.caller, structs.NodeGet, structs.NodeGetResponse{
		Node: &structs.NodeDetail{Node: structs.Node{ID: "n", HTTPAddr: strings.TrimPrefix(far.URL, "http://")}},
	})

	for i, s := range []*server{near, far} {
		name := []string{"another agent", "the agent of the node"}[i]
		apitest.Answer(s.caller, access.Check, access.CheckResponse{})
		c := api.NewClient(api.ClientConfig{Address: s.URL})
		defer c.Close()
		log, err := allocs.Logs(t.Context(), c, "here", allocs.LogOptions{Task: "t", Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		framed, err := http.Get(s.URL + "/v1/client/fs/logs/here?task=t&type=stdout&follow=true")
		if err != nil {
			t.Fatal(err)
		}

		first := make([]byte, len("one\n"))
		_, err = io.ReadFull(log, first)
		if err != nil {
			t.Fatal(err)
		}
		apitest.Fail(s.caller, access.Check, structs.Deniedf("the token was deleted"))
		rest, err := io.ReadAll(log)
		if len(rest) > 0 || !structs.IsKind(err, structs.KindDenied) || err.Error() != "the token was deleted" {
			t.Errorf("%s: the log ended after %q with %v, want denied", name, rest, err)
		}
		_, err = io.ReadAll(framed.Body)
		if err == nil {
			t.Errorf("%s: frames ended like a whole log", name)
		}
		_ = log.Close()
		_ = framed.Body.Close()
	}
}
