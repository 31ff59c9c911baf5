package jobstatuses_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/jobstatuses"
	"berth/structs"
)

// client returns a client whose requests keep records, and the last record.
func client(t *testing.T) (*api.Client, func() *structs.JobStatusesRequest) {
	caller := &apitest.Caller{}
	apitest.On(caller, structs.JobStatuses, func(context.Context, *structs.JobStatusesRequest) (
		*structs.JobStatusesResponse, error,
	) {
		return &structs.JobStatusesResponse{Jobs: []*structs.JobStatus{{ID: "a"}}}, nil
	})
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Caller: caller, Agent: &apitest.Agent{}, Logger: hclog.NewNullLogger(),
	}))
	t.Cleanup(srv.Close)
	c := api.NewClient(api.ClientConfig{Address: srv.URL})
	t.Cleanup(c.Close)
	return c, func() *structs.JobStatusesRequest {
		calls := caller.Take()
		return calls[len(calls)-1].Request.(*structs.JobStatusesRequest)
	}
}

type names = []structs.JobName

func TestSome_AsksForTheNamespacesOfItsJobs(t *testing.T) {
	c, last := client(t)
	in := func(ns string) structs.JobName { return structs.JobName{ID: "a", Namespace: ns} }
	for name, test := range map[string]struct {
		of    string
		names names
		want  string
		asked names
	}{
		"no name":            {"n", nil, "n", nil},
		"their own":          {"n", names{in("m"), in("m")}, "m", names{in("m"), in("m")}},
		"that of none":       {"", names{in("")}, "default", names{in("default")}},
		"that of the client": {"n", names{in("")}, "n", names{in("n")}},
		"two":                {"n", names{in("m"), in("")}, "*", names{in("m"), in("n")}},
		"all":                {"*", names{in("m")}, "*", names{in("m")}},
	} {
		got, _, err := jobstatuses.Some(t.Context(), c, test.names, &structs.QueryOptions{Namespace: test.of})
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: got %v, %v", name, got, err)
		}
		asked := last()
		if asked.Namespace != test.want || !slices.Equal(asked.Jobs, test.asked) {
			t.Errorf("%s: asked for %+v of namespace %q, want %+v of %q",
				name, asked.Jobs, asked.Namespace, test.asked, test.want)
		}
	}
}

func TestList_IncludesChildren(t *testing.T) {
	c, last := client(t)
	for _, children := range []bool{false, true} {
		_, _, err := jobstatuses.List(t.Context(), c, children, nil)
		if asked := last(); err != nil || asked.IncludeChildren != children {
			t.Errorf("got %+v, %v", asked, err)
		}
	}
}
