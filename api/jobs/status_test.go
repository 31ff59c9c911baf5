package jobs_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/jobs"
	"berth/structs"
)

// statusClient returns a client whose requests keep records, and the last record.
func statusClient(t *testing.T) (*api.Client, func() *structs.JobStatusesRequest) {
	caller := &apitest.Caller{}
	apitest.On(caller, structs.JobStatuses, func(context.Context, *structs.JobStatusesRequest) (
		*structs.JobStatusesResponse, error,
	) {
		return &structs.JobStatusesResponse{Jobs: []*structs.JobStatus{{ID: "a"}}}, nil
	})
	srv := httptest.NewServer(api.NewHandler(api.Config{
		Routes: jobs.Routes(),
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

type jobNames = []structs.JobName

func TestSome_AsksForTheNamespacesOfItsJobs(t *testing.T) {
	c, last := statusClient(t)
	in := func(ns string) structs.JobName { return structs.JobName{ID: "a", Namespace: ns} }
	for name, test := range map[string]struct {
		of    string
		names jobNames
		want  string
		asked jobNames
	}{
		"no name":            {"n", nil, "n", nil},
		"their own":          {"n", jobNames{in("m"), in("m")}, "m", jobNames{in("m"), in("m")}},
		"that of none":       {"", jobNames{in("")}, "default", jobNames{in("default")}},
		"that of the client": {"n", jobNames{in("")}, "n", jobNames{in("n")}},
		"two":                {"n", jobNames{in("m"), in("")}, "*", jobNames{in("m"), in("n")}},
		"all":                {"*", jobNames{in("m")}, "*", jobNames{in("m")}},
	} {
		got, _, err := jobs.SomeStatuses(t.Context(), c, test.names, &structs.QueryOptions{Namespace: test.of})
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
	c, last := statusClient(t)
	for _, children := range []bool{false, true} {
		_, _, err := jobs.ListStatuses(t.Context(), c, children, nil)
		if asked := last(); err != nil || asked.IncludeChildren != children {
			t.Errorf("got %+v, %v", asked, err)
		}
	}
}
